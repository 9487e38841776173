// The page: what each control does.

function fill() {
  $("f").replaceChildren(
    ...Object.entries(FUNCTIONS).map(([key, f]) => new Option(f.title, key)),
  );
  $("many_method").replaceChildren(
    ...Object.values(METHODS).map((m) => new Option(m.label, m.name)),
  );
  for (const [letter, m] of Object.entries(METHODS)) {
    const label = document.createElement("label");
    const box = Object.assign(document.createElement("input"), { type: "checkbox", id: `use-${m.name}` });
    const sign = document.createElement("i");
    sign.style.borderTopColor = `var(${m.colour})`;
    sign.style.borderTopStyle = m.dash.length ? "dashed" : "solid";
    label.append(box, sign, m.label);
    $("methods").append(label);
    box.addEventListener("change", () => {
      const letters = Object.keys(METHODS).filter((l) => $(`use-${METHODS[l].name}`).checked);
      state.methods = letters.join("");
      refresh();
    });
  }
}

/** Show everything anew after the state has changed. */
function refresh({ network = false } = {}) {
  showControls();
  keepAddress();
  if (network) makeNetwork();
  if (state.tab === "plane") {
    makePaths();
    drawPlane();
  } else if (state.tab === "many") drawMany();
  else {
    if (!net.graph) makeNetwork();
    drawNetwork();
  }
}

function redraw() {
  if (state.tab === "plane") drawPlane();
  else if (state.tab === "many") drawMany();
  else drawNetwork();
}

function openTab(name) {
  playPlane(false);
  playNetwork(false);
  state.tab = name;
  refresh();
}

function listen() {
  const tabs = ["plane", "many", "network"];
  tabs.forEach((name, i) => {
    $(`tab-${name}`).addEventListener("click", () => openTab(name));
    $(`tab-${name}`).addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      event.stopPropagation();
      const next = tabs[(i + step + tabs.length) % tabs.length];
      openTab(next);
      $(`tab-${next}`).focus();
    });
  });
  const ofNetwork = new Set(["nodes"]);
  for (const [name, slider] of Object.entries(SLIDERS)) {
    $(name).addEventListener("input", () => {
      state[name] = slider.read(Number($(name).value));
      refresh({ network: ofNetwork.has(name) });
    });
  }
  $("f").addEventListener("change", () => {
    Object.assign(state, { f: $("f").value, x: null, y: null, L: null, mu: null, tau: null, start: null, t: 0 });
    plane.t = 0;
    refresh();
  });
  for (const name of ["x", "y"]) {
    $(name).addEventListener("change", () => {
      const value = $(name).valueAsNumber;
      if (Number.isFinite(value)) state[name] = Math.max(-1e6, Math.min(1e6, value));
      refresh();
    });
  }
  $("own").addEventListener("click", () => {
    Object.assign(state, { L: null, mu: null, tau: null, start: null });
    refresh();
  });
  $("many_method").addEventListener("change", () => {
    state.many_method = $("many_method").value;
    refresh();
  });
  $("graph").addEventListener("change", () => {
    Object.assign(state, { graph: $("graph").value, dead: "" });
    refresh({ network: true });
  });
  $("clear_graph").addEventListener("click", () => {
    Object.assign(state, { own_nodes: "", own_edges: "", dead: "" });
    refresh({ network: true });
  });
  $("kill").addEventListener("click", () => {
    const i = $("victim").valueAsNumber;
    if (net.graph && Number.isInteger(i) && i in net.graph.places) toggleNode(i);
    else say(`There is no node ${$("victim").value}.`);
  });
  const restart = () => {
    plane.t = state.t = 0;
    playPlane(false);
    refresh({ network: true });
  };
  $("new_clock").addEventListener("click", () => {
    state.seed = (state.seed + 1) % 2 ** 31;
    restart();
  });
  $("same_clock").addEventListener("click", restart);
  $("seed").addEventListener("change", () => {
    const value = $("seed").valueAsNumber;
    if (Number.isInteger(value) && value >= 0) state.seed = value % 2 ** 31;
    restart();
  });
  $("play").addEventListener("click", () => playPlane(!plane.playing));
  $("one").addEventListener("click", oneEvent);
  $("net_play").addEventListener("click", () => playNetwork(!net.playing));
  $("net_one").addEventListener("click", () => goToTicks(Math.floor(net.ticks) + 1));
  for (const id of ["plain", "accelerated"]) $(id).addEventListener("click", clickGraph);
  listenToMap();
  document.addEventListener("keydown", (event) => {
    if (event.target.closest("input, select, button, dialog")) return;
    if (event.key === " ") {
      event.preventDefault();
      if (state.tab === "plane") playPlane(!plane.playing);
      if (state.tab === "network") playNetwork(!net.playing);
    } else if (event.key === "ArrowRight") {
      if (state.tab === "plane") oneEvent();
      if (state.tab === "network") goToTicks(Math.floor(net.ticks) + 1);
    }
  });
  listenToExports();
  $("theme").addEventListener("click", () => {
    const root = document.documentElement;
    root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
    redraw();
  });
  new ResizeObserver(() => redraw()).observe(document.querySelector("main"));
  window.addEventListener("hashchange", () => {
    Object.assign(state, DEFAULTS);
    readAddress();
    plane.t = state.t;
    refresh({ network: true });
  });
}

function listenToExports() {
  const tables = { plane: planeTable, many: manyTable, network: networkTable };
  const canvases = {
    plane: ["map", "axis", "curve"],
    many: ["fan"],
    network: ["plain", "accelerated", "errors"],
  };
  $("png").addEventListener("click", () => savePicture(`${state.tab}.png`, canvases[state.tab].map($)));
  $("csv").addEventListener("click", () => saveText(`${state.tab}.csv`, tables[state.tab]()));
  const copy = (text, done) =>
    (navigator.clipboard?.writeText(text) ?? Promise.reject()).then(
      () => say(done),
      () => say("The browser does not allow copying here."),
    );
  $("link").addEventListener("click", () => {
    history.replaceState(null, "", address());
    copy(location.href, "The link is in the clipboard, and in the address bar.");
  });
  $("python").addEventListener("click", () => {
    $("code").textContent = pythonCode();
    $("code_box").showModal();
  });
  $("copy_code").addEventListener("click", () => copy($("code").textContent, "Copied."));
  $("save_code").addEventListener("click", () => saveText("run.py", $("code").textContent));
  $("close_code").addEventListener("click", () => $("code_box").close());
}

const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
document.documentElement.dataset.theme = prefersDark.matches ? "dark" : "light";
fill();
readAddress();
plane.t = state.t;
listen();
refresh({ network: state.tab === "network" });
window.explorer = {
  FORMULAS, state, plane, net, many, lyapunov, constants, drawPlane, pythonCode, planeTable,
  exactSecondMoment, graphConstants,
};
