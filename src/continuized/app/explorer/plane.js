// The plane: contours of f, the paths of the methods, their clock, and f - f* against time.

const METHODS = {
  g: { name: "gradient-descent", label: "Gradient descent", colour: "--descent", dash: [2, 3] },
  n: { name: "nesterov", label: "Nesterov", colour: "--nesterov", dash: [7, 3] },
  c: { name: "continuized", label: "Continuized", colour: "--continuized", dash: [] },
  s: { name: "sharp", label: "Sharp", colour: "--sharp", dash: [10, 3, 2, 3] },
};
const PATH_DELTA = 0.01; // a run crosses the path bound with this probability at most

const plane = { paths: [], t: 0, playing: false, last: 0, frames: 0, background: null, bounds: null };

const currentFunction = () => {
  const { value, gradient } = FUNCTIONS[state.f];
  const kappa = state.kappa;
  return { value: (x, y) => value(x, y, kappa), gradient: (x, y) => gradient(x, y, kappa) };
};
const minimum = () => currentFunction().value(...FUNCTIONS[state.f].minimiser);
const distance2 = (p, q) => (p[0] - q[0]) ** 2 + (p[1] - q[1]) ** 2;

function makePaths() {
  const clock = new Clock(state.seed);
  const c = constants();
  plane.paths = Object.entries(METHODS)
    .filter(([letter, m]) => state.methods.includes(letter) && !(m.name === "sharp" && c.mu === 0))
    .map(([, m]) => ({
      ...m,
      path: new Path(m.name, currentFunction(), c, startPoint(), clock),
    }));
}

/** How points of the plane are placed on the canvas, one unit of x as long as one of y. */
function frame(width, height) {
  const [left, right, low, high] = FUNCTIONS[state.f].window;
  const unit = Math.min(width / (right - left), height / (high - low));
  const [midX, midY] = [(left + right) / 2, (low + high) / 2];
  return {
    unit,
    place: ([x, y]) => [width / 2 + unit * (x - midX), height / 2 - unit * (y - midY)],
    point: (px, py) => [midX + (px - width / 2) / unit, midY - (py - height / 2) / unit],
  };
}

/** The contours, drawn once for a function, a size and a theme. */
function background(width, height) {
  const theme = document.documentElement.dataset.theme;
  const key = [state.f, state.kappa, width, height, theme, window.devicePixelRatio].join();
  if (plane.background?.key === key) return plane.background.picture;
  const picture = document.createElement("canvas");
  const ratio = window.devicePixelRatio || 1;
  [picture.width, picture.height] = [width * ratio, height * ratio];
  const pen = picture.getContext("2d");
  pen.scale(ratio, ratio);
  const { point, place } = frame(width, height);
  const f = currentFunction();
  const lowest = minimum();
  const cell = 4;
  const [columns, rows] = [Math.ceil(width / cell) + 1, Math.ceil(height / cell) + 1];
  const values = Array.from({ length: rows }, (_, j) =>
    Array.from({ length: columns }, (_, i) => {
      const excess = f.value(...point(i * cell, j * cell)) - lowest;
      return Math.log2(Math.max(excess, 1e-12));
    }),
  );
  const highest = Math.max(...values.map((row) => Math.max(...row)));
  const levels = Array.from({ length: 14 }, (_, i) => highest - 0.3 - 0.9 * i);
  levels.forEach((level, i) => {
    pen.strokeStyle = css("--soft");
    pen.globalAlpha = 0.18 + 0.03 * i;
    pen.lineWidth = 1;
    pen.beginPath();
    for (const [p, q] of contour(values, level)) {
      pen.moveTo(p[0] * cell, p[1] * cell);
      pen.lineTo(q[0] * cell, q[1] * cell);
    }
    pen.stroke();
  });
  pen.globalAlpha = 1;
  const [x, y] = place(FUNCTIONS[state.f].minimiser);
  line(pen, [[x - 6, y], [x + 6, y]], css("--ink"));
  line(pen, [[x, y - 6], [x, y + 6]], css("--ink"));
  plane.background = { key, picture };
  return picture;
}

function drawMap() {
  const view = open($("map"));
  const { pen, width, height } = view;
  pen.drawImage(background(width, height), 0, 0, width, height);
  const { place } = frame(width, height);
  for (const { path, colour, dash } of plane.paths) {
    const now = path.at(plane.t);
    const first = Math.max(0, now.k - 400); // a long tail is a blot
    const tail = [path.states[first].x];
    for (let k = first; k < now.k; k++) {
      if (path.isContinuous) tail.push(path.events[k].y);
      tail.push(path.states[k + 1].x);
    }
    tail.push(now.x);
    line(pen, tail.map(place), css(colour), { width: 1.6, dash, alpha: 0.75 });
    if (path.method === "continuized") {
      const z = [path.states[first].z];
      for (let k = first; k < now.k; k++) z.push(path.events[k].w, path.states[k + 1].z);
      z.push(now.z);
      line(pen, z.map(place), css("--z"), { width: 1, alpha: 0.45 });
      line(pen, [place(now.x), place(now.z)], css("--soft"), { width: 1, dash: [3, 3] });
      dot(pen, place(now.z), 5, css("--z"), css("--paper"));
    }
    dot(pen, place(now.x), 5.5, css(colour), css("--paper"));
  }
  const start = place(startPoint());
  dot(pen, start, 7, "transparent", css("--ink"));
  pen.fillStyle = css("--ink");
  pen.textAlign = "left";
  pen.fillText("x₀ (drag)", start[0] + 10, start[1] - 8);
  const both = plane.paths.find(({ path }) => path.method === "continuized");
  if (both) {
    const now = both.path.at(plane.t);
    for (const [name, at, colour, side] of [["x", now.x, both.colour, 8], ["z", now.z, "--z", -14]]) {
      const [px, py] = place(at);
      pen.fillStyle = css(colour);
      pen.fillText(name, px + side, py + 14);
    }
  }
}

function drawAxis() {
  const { pen, width, height } = open($("axis"));
  const span = 20;
  const from = Math.max(0, plane.t - 0.75 * span);
  const x = (t) => 54 + ((width - 66) * (t - from)) / span;
  line(pen, [[54, height - 18], [width - 12, height - 18]], css("--soft"), { width: 1 });
  pen.fillStyle = css("--soft");
  pen.textAlign = "center";
  for (const t of ticks(from, from + span, 8)) pen.fillText(String(t), x(t), height - 4);
  const clocked = plane.paths.find(({ path }) => path.isContinuous);
  if (clocked) {
    const { path } = clocked;
    for (let k = path.countUntil(from); k <= path.countUntil(from + span); k++) {
      const t = path.states[k].t;
      if (k === 0 || t < from || t > from + span) continue;
      const isPast = t <= plane.t;
      line(pen, [[x(t), height - 18], [x(t), height - (isPast ? 34 : 26)]], css("--event"), {
        width: 2,
        alpha: isPast ? 1 : 0.35,
      });
    }
  }
  line(pen, [[x(plane.t), 4], [x(plane.t), height - 14]], css("--bound"), { width: 2 });
  pen.textAlign = "left";
  pen.fillStyle = css("--soft");
  pen.fillText("events", 4, 16);
}

/** f - f* and phi of a path up to now, at evenly spaced times, which are kept from frame to frame. */
function curveUntil({ path }, right, steps, lowest, c) {
  const step = right / steps;
  if (path.curve?.step !== step) path.curve = { step, points: [], least: Infinity };
  const { curve } = path;
  const at = (t) => {
    const now = path.at(t);
    const excess = now.f - lowest;
    const far = distance2(now.z, FUNCTIONS[state.f].minimiser);
    return { t, excess, phi: lyapunov.phi(c, t, excess, far) };
  };
  while (curve.points.length * step <= plane.t) {
    const next = at(curve.points.length * step);
    curve.points.push(next);
    if (next.excess > 1e-16) curve.least = Math.min(curve.least, next.excess);
  }
  const seen = curve.points.slice(0, Math.floor(plane.t / step + 1e-9) + 1);
  return [...seen, at(plane.t)];
}

/** The bounds of the mean and of whole runs on a grid of times, made once for the constants. */
function boundsUntil(c, right, start, first) {
  const key = JSON.stringify([state.f, state.kappa, c, right, start]);
  if (plane.bounds?.key === key) return plane.bounds;
  const far = distance2(start, FUNCTIONS[state.f].minimiser);
  const grid = Array.from({ length: 300 }, (_, i) => (right * (i + 0.5)) / 300);
  const mean = grid.map((t) => lyapunov.bound(c, t, first, far));
  const whole = c.noise > 0 ? null : grid.map((t) => lyapunov.pathBound(c, t, first, far, PATH_DELTA));
  plane.bounds = { key, grid, mean, whole };
  return plane.bounds;
}

function drawCurve() {
  const view = open($("curve"));
  const { pen } = view;
  const c = constants();
  const lowest = minimum();
  const right = Math.max(40, 20 * Math.ceil((plane.t * 1.15) / 20));
  const steps = Math.max(200, Math.min(600, view.width));
  const curves = plane.paths.map((m) => ({ ...m, values: curveUntil(m, right, steps, lowest, c) }));
  const start = startPoint();
  const first = currentFunction().value(...start) - lowest;
  const least = Math.min(first, ...curves.map(({ path }) => path.curve.least));
  const last = curves.length ? curves.at(-1).values.at(-1).excess : first;
  const top = Math.ceil(Math.log10(Math.max(first, last, 1e-8) * 3));
  const bottom = Math.max(-16, Math.min(top - 4, Math.floor(Math.log10(least))));
  const axes = logAxes(view, {
    right, top, bottom, xLabel: "time, or gradients", yLabel: "f(x) − f*",
  });
  const names = [];
  axes.clip();
  const shown = plane.paths.find((m) => m.path.method === "continuized");
  if (shown && isCovered(c)) {
    const { grid, mean, whole } = boundsUntil(c, right, start, first);
    const draw = (name, values, look) => {
      line(pen, grid.map((t, i) => [axes.x(t), axes.y(values[i])]), look.colour, look);
      names.push({ name, ...look });
    };
    draw(c.noise > 0 ? "bound of the mean, with noise" : "bound of the mean", mean, {
      colour: css("--bound"), dash: [8, 4], width: 1.8,
    });
    if (whole) {
      draw("99 % of runs stay below", whole, { colour: css("--bound"), dash: [2, 4], width: 1.4 });
    }
  }
  if (shown) {
    const values = curves.find(({ path }) => path === shown.path).values;
    const phi = values.filter(({ t }) => t > 0).map(({ t, phi }) => [axes.x(t), axes.y(phi)]);
    line(pen, phi, css("--z"), { width: 1, dash: [4, 2] });
    names.push({ name: "φₜ", colour: css("--z"), dash: [4, 2], width: 1 });
  }
  for (const { label, colour, dash, values } of curves) {
    const points = values.map(({ t, excess }) => [axes.x(t), axes.y(excess)]);
    line(pen, points, css(colour), { width: 1.8, dash });
    names.push({ name: label, colour: css(colour), dash, width: 1.8 });
  }
  pen.restore();
  if (names.length) legend(pen, axes.area, names);
}

function drawPlane() {
  drawMap();
  drawAxis();
  drawCurve();
  const lowest = minimum();
  $("numbers").textContent = plane.paths
    .map(({ label, path }) => {
      const now = path.at(plane.t);
      return `${label}: ${now.k} gradients, f − f* = ${(now.f - lowest).toExponential(2)}`;
    })
    .join(". ");
}

/** Go to the next event of any path that is shown. */
function oneEvent() {
  const next = plane.paths.map(({ path }) => {
    const k = path.countUntil(plane.t);
    while (path.states.length <= k + 1) path.step();
    return path.states[k + 1].t;
  });
  if (next.length) goTo(Math.min(...next));
}

function goTo(t) {
  plane.t = state.t = t;
  drawPlane();
  keepAddress();
}

function playPlane(isOn) {
  plane.playing = isOn;
  $("play").textContent = isOn ? "Pause" : "Play";
  $("play").setAttribute("aria-pressed", String(isOn));
  plane.last = performance.now();
  if (isOn) requestAnimationFrame(animatePlane);
}

function animatePlane(now) {
  if (!plane.playing) return;
  const seconds = Math.min(0.1, (now - plane.last) / 1000);
  plane.last = now;
  plane.frames += 1;
  goTo(plane.t + state.speed * seconds);
  if (plane.t > LATEST) playPlane(false);
  else requestAnimationFrame(animatePlane);
}

/** Drag the start with a mouse, a pen or a finger. */
function listenToMap() {
  const canvas = $("map");
  let dragging = false;
  const where = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const move = (event) => {
    const { point } = frame(canvas.clientWidth, canvas.clientHeight);
    const [x, y] = point(...where(event));
    [state.x, state.y] = [Number(x.toFixed(3)), Number(y.toFixed(3))];
    refresh();
  };
  canvas.addEventListener("pointerdown", (event) => {
    const { place } = frame(canvas.clientWidth, canvas.clientHeight);
    if (distance2(place(startPoint()), where(event)) > 30 ** 2) return;
    dragging = true;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => dragging && move(event));
  canvas.addEventListener("pointerup", () => (dragging = false));
  canvas.addEventListener("dblclick", move);
}

// What is taken along.

function planeTable() {
  const rows = ["method,k,t,x1,x2,z1,z2,f"];
  for (const { path } of plane.paths) {
    for (const s of path.states.slice(0, path.countUntil(plane.t) + 1)) {
      rows.push([path.method, s.k, s.t, ...s.x, ...s.z, s.f].join(","));
    }
  }
  return `${rows.join("\n")}\n`;
}

/** Python code that repeats the first continuous path that is shown, or the first of all. */
function pythonCode() {
  const shown = plane.paths.find(({ path }) => path.isContinuous) ?? plane.paths[0];
  if (!shown) return "# Choose a method first.\n";
  const { path } = shown;
  const n = Math.max(1, path.countUntil(plane.t));
  while (path.states.length <= n) path.step();
  const c = constants();
  const number = (v) => (v === Infinity ? "math.inf" : String(v));
  const list = (values) => {
    const lines = [];
    for (let i = 0; i < values.length; i += 4) lines.push(`    ${values.slice(i, i + 4).join(", ")},`);
    return `[\n${lines.join("\n")}\n]`;
  };
  const methods = {
    "gradient-descent": `cz.GradientDescent(${c.L})`,
    nesterov: `cz.Nesterov(${c.L}, ${c.mu})`,
    sharp: `cz.SharpContinuized(${c.L}, ${c.mu})`,
    continuized: `cz.Continuized(${c.L}, ${c.mu}, start=${number(c.start)}, tau=${c.tau})`,
  };
  const { value, gradient } = FUNCTIONS[state.f];
  const extra = [];
  let options = `maxiter=${n}`;
  if (path.isContinuous) {
    const gaps = path.events.slice(0, n).map((event) => event.dt);
    extra.push(`gaps = ${list(gaps)}`, "clock = cz.clock.Recorded(np.cumsum(gaps), gaps)");
    options += ", clock=clock";
  }
  if (c.noise > 0) {
    const noise = path.clock.normals.slice(0, n).map((v) => `(${v[0]}, ${v[1]})`);
    extra.push(
      `NOISE = ${c.noise} * np.array(${list(noise)})`,
      "",
      "",
      "class RecordedNoise:",
      "    def __init__(self):",
      "        self.drawn = 0",
      "",
      "    def draw(self, rng, n, dim):",
      "        rows = np.zeros((n, dim))",
      "        part = NOISE[self.drawn : self.drawn + n]",
      "        rows[: len(part)] = part",
      "        self.drawn += n",
      "        return rows",
      "",
      "    def sigma2(self, dim):",
      `        return ${c.noise * c.noise} * dim`,
      "",
      "",
    );
    options += ", noise=RecordedNoise()";
  }
  const last = path.states[n];
  return `"""${shown.label} on ${state.f}: the run that the explorer shows, event by event."""

import math

import numpy as np

import continuized as cz

${SOURCES[state.f]}

problem = cz.Problem(
    lambda w: ${value.name}(w[0], w[1], ${state.kappa}),
    lambda w: np.array(${gradient.name}(w[0], w[1], ${state.kappa})),
)
${extra.join("\n")}
r = cz.minimize(
    problem, [${startPoint().join(", ")}], method=${methods[path.method]},
    ${options},
)
print(r.x, r.fun)
shown = [${last.x.join(", ")}]  # by the explorer, after ${n} gradients
assert np.allclose(r.x, shown, rtol=1e-9, atol=1e-9)
`;
}
