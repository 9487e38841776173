// The state of the page: its fields, the controls that show and change them, and the address.

const $ = (id) => document.getElementById(id);

/** What a link holds, with defaults.  null: the function's or the paper's own. */
const DEFAULTS = {
  tab: "plane", f: "quadratic", kappa: 30, x: null, y: null, L: null, mu: null, start: null,
  tau: null, noise: 0, methods: "gnc", seed: 1, t: 0, speed: 6, many_method: "continuized",
  runs: 200, until: 100, graph: "grid", nodes: 25, loss: 0, delay: 0, net_speed: 30, dead: "",
  own_nodes: "", own_edges: "",
};
const state = { ...DEFAULTS };
const LATEST = 4000; // where a path in the plane ends

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  for (const [name, value] of given) {
    if (!Object.hasOwn(DEFAULTS, name)) continue;
    const isText = typeof DEFAULTS[name] === "string";
    const number = value === "inf" ? Infinity : Number(value);
    if (isText) state[name] = value;
    else if (value !== "" && !Number.isNaN(number)) state[name] = number;
  }
  const known = {
    tab: ["plane", "many", "network"],
    f: Object.keys(FUNCTIONS),
    many_method: Object.values(METHODS).map((method) => method.name),
    graph: [...Object.keys(GRAPHS), "own"],
  };
  for (const [name, values] of Object.entries(known)) {
    if (!values.includes(state[name])) state[name] = DEFAULTS[name];
  }
  state.t = Math.min(LATEST, Math.max(0, state.t));
  state.kappa = Math.min(1e4, Math.max(1, state.kappa));
  state.nodes = Math.min(64, Math.max(3, Math.round(state.nodes)));
  state.runs = Math.min(500, Math.max(20, Math.round(state.runs)));
  state.until = Math.min(400, Math.max(20, state.until));
  state.seed = Math.max(0, Math.floor(state.seed)) % 2 ** 31;
}

function address() {
  const parts = Object.keys(DEFAULTS)
    .filter((name) => state[name] !== DEFAULTS[name])
    .map((name) => {
      const value = state[name] === Infinity ? "inf" : state[name];
      return `${name}=${encodeURIComponent(value)}`;
    });
  return `#${parts.join("&")}`;
}

let addressTimer = 0;
function keepAddress() {
  clearTimeout(addressTimer);
  addressTimer = setTimeout(() => history.replaceState(null, "", address()), 200);
}

/** The constants that a run takes: the user's, or the function's own. */
function constants() {
  const [ownL, ownMu, ownTau] = FUNCTIONS[state.f].constants(state.kappa);
  const L = state.L ?? ownL;
  const mu = Math.min(state.mu ?? ownMu, L);
  const tau = state.tau ?? (ownTau || 1);
  let start = state.start ?? default_start(mu);
  if (mu === 0 && start === Infinity) start = 0;
  if (mu > 0 && tau < 1) start = Infinity;
  return { L, mu, tau, start, noise: state.noise };
}

/** Whether the theorem covers these constants on this function. */
function isCovered(c) {
  const [L, mu, tau] = FUNCTIONS[state.f].constants(state.kappa);
  const slack = 1e-12;
  return tau > 0 && c.L >= L * (1 - slack) && c.mu <= mu * (1 + slack) && c.tau <= tau;
}

const startPoint = () => {
  const [x, y] = FUNCTIONS[state.f].start;
  return [state.x ?? x, state.y ?? y];
};

const short = (v) => (v === Infinity ? "∞" : Number(v.toPrecision(3)).toString());
const power = (v) => Number((10 ** v).toPrecision(3));

/** Sliders: how a field is shown on one, and how it is read from it. */
const START_UNIT = 0.1;
const SLIDERS = {
  kappa: { show: () => Math.log10(state.kappa), read: power },
  L: {
    show: () => Math.log10(constants().L / FUNCTIONS[state.f].constants(state.kappa)[0]),
    read: (v) => FUNCTIONS[state.f].constants(state.kappa)[0] * power(v),
    text: () => short(constants().L),
  },
  mu: {
    show: () => (constants().mu > 0 ? Math.log10(constants().mu / constants().L) : -5),
    read: (v) => (v <= -5 ? 0 : constants().L * power(v)),
    text: () => short(constants().mu),
  },
  start: {
    show: () => {
      const { start } = constants();
      if (start === Infinity) return 100;
      return start === 0 ? 0 : 1 + 33 * Math.log10(start / START_UNIT);
    },
    read: (v) => (v >= 100 ? Infinity : v < 1 ? 0 : START_UNIT * power((v - 1) / 33)),
    text: () => short(constants().start),
  },
  tau: { show: () => constants().tau, read: (v) => v, text: () => short(constants().tau) },
  noise: {
    show: () => (state.noise > 0 ? Math.log10(state.noise) : -4),
    read: (v) => (v <= -4 ? 0 : power(v)),
  },
  speed: { show: () => Math.log10(state.speed), read: power, text: () => `${short(state.speed)} /s` },
  runs: { show: () => state.runs, read: (v) => v },
  until: { show: () => state.until, read: (v) => v },
  nodes: { show: () => state.nodes, read: (v) => v },
  loss: { show: () => state.loss, read: (v) => v, text: () => `${Math.round(100 * state.loss)} %` },
  delay: { show: () => state.delay, read: (v) => v },
  net_speed: {
    show: () => Math.log10(state.net_speed),
    read: power,
    text: () => `${short(state.net_speed)} /s`,
  },
};

function showControls() {
  for (const [name, slider] of Object.entries(SLIDERS)) {
    $(name).value = slider.show();
    const text = (slider.text ?? (() => short(state[name])))();
    document.querySelector(`output[for="${name}"]`).textContent = text;
    $(name).setAttribute("aria-valuetext", text);
  }
  $("f").value = state.f;
  $("many_method").value = state.many_method;
  $("graph").value = state.graph;
  $("seed").value = state.seed;
  [$("x").value, $("y").value] = startPoint().map((v) => Number(v.toFixed(3)));
  const f = FUNCTIONS[state.f];
  const c = constants();
  $("warning").textContent =
    f.warning || (isCovered(c) ? "" : "These constants are not those of a theorem for this function.");
  for (const [letter, method] of Object.entries(METHODS)) {
    $(`use-${method.name}`).checked = state.methods.includes(letter);
    $(`use-${method.name}`).disabled = method.name === "sharp" && c.mu === 0;
  }
  for (const part of document.querySelectorAll("[data-tabs]")) {
    part.hidden = !part.dataset.tabs.split(" ").includes(state.tab);
  }
  document.querySelector('[data-needs="kappa"]').hidden = !f.uses_kappa;
  document.querySelector('[data-needs="size"]').hidden = state.graph === "own";
  $("clear_graph").hidden = state.graph !== "own";
  for (const name of ["plane", "many", "network"]) {
    const isOpen = name === state.tab;
    $(name).hidden = !isOpen;
    $(`tab-${name}`).setAttribute("aria-selected", String(isOpen));
    $(`tab-${name}`).tabIndex = isOpen ? 0 : -1;
  }
}

function say(text) {
  $("said").textContent = text;
}
