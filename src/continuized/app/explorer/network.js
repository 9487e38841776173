// Gossip on a graph, plain beside accelerated, with the same clock, lost and late messages.

/** Graphs by name: positions in a unit square, and edges. */
const GRAPHS = {
  path: (n) => snake(n),
  cycle: (n) => [circle(n), ring(n)],
  star: (n) => [
    [[0.5, 0.5], ...circle(n - 1)],
    Array.from({ length: n - 1 }, (_, i) => [0, i + 1]),
  ],
  grid: (n) => {
    const columns = Math.ceil(Math.sqrt(n));
    const rows = Math.ceil(n / columns);
    const places = Array.from({ length: n }, (_, i) => [
      0.05 + (0.9 * (i % columns)) / (columns - 1),
      rows > 1 ? 0.05 + (0.9 * Math.floor(i / columns)) / (rows - 1) : 0.5,
    ]);
    const edges = [];
    for (let i = 0; i < n; i++) {
      if ((i + 1) % columns && i + 1 < n) edges.push([i, i + 1]);
      if (i + columns < n) edges.push([i, i + columns]);
    }
    return [places, edges];
  },
  small: (n) => {
    const random = new Random(state.seed);
    const edges = ring(n);
    for (let i = 0; i < Math.floor(n / 4); i++) {
      const [a, b] = [random.below(n), random.below(n)];
      if (a !== b && !hasEdge(edges, a, b)) edges.push([a, b]);
    }
    return [circle(n), edges];
  },
};

const hasEdge = (edges, a, b) => edges.some(([p, q]) => (p === a && q === b) || (p === b && q === a));
const circle = (n) =>
  Array.from({ length: n }, (_, i) => {
    const angle = (2 * Math.PI * i) / n - Math.PI / 2;
    return [0.5 + 0.44 * Math.cos(angle), 0.5 + 0.44 * Math.sin(angle)];
  });
const ring = (n) => Array.from({ length: n }, (_, i) => [i, (i + 1) % n]).slice(0, n > 2 ? n : 1);
const snake = (n) => {
  const columns = Math.min(n, 10);
  const rows = Math.ceil(n / columns);
  const places = Array.from({ length: n }, (_, i) => {
    const row = Math.floor(i / columns);
    const column = row % 2 ? columns - 1 - (i % columns) : i % columns;
    const x = columns > 1 ? 0.05 + (0.9 * column) / (columns - 1) : 0.5;
    return [x, rows > 1 ? 0.1 + (0.8 * row) / (rows - 1) : 0.5];
  });
  return [places, Array.from({ length: n - 1 }, (_, i) => [i, i + 1])];
};

/** Eigenvalues and eigenvectors (columns) of a symmetric matrix, by Jacobi's rotations. */
function eigen(matrix) {
  const n = matrix.length;
  const A = matrix.map((row) => [...row]);
  const V = matrix.map((_, i) => matrix.map((_, j) => (i === j ? 1 : 0)));
  for (let sweep = 0; sweep < 60; sweep++) {
    let off = 0;
    for (let p = 0; p < n; p++) {
      for (let q = p + 1; q < n; q++) {
        off = Math.max(off, Math.abs(A[p][q]));
        if (Math.abs(A[p][q]) < 1e-300) continue;
        const angle = (A[q][q] - A[p][p]) / (2 * A[p][q]);
        const t = (angle >= 0 ? 1 : -1) / (Math.abs(angle) + Math.hypot(angle, 1));
        const cos = 1 / Math.hypot(t, 1);
        const sin = t * cos;
        for (let i = 0; i < n; i++) {
          [A[i][p], A[i][q]] = [cos * A[i][p] - sin * A[i][q], sin * A[i][p] + cos * A[i][q]];
        }
        for (let i = 0; i < n; i++) {
          [A[p][i], A[q][i]] = [cos * A[p][i] - sin * A[q][i], sin * A[p][i] + cos * A[q][i]];
          [V[i][p], V[i][q]] = [cos * V[i][p] - sin * V[i][q], sin * V[i][p] + cos * V[i][q]];
        }
      }
    }
    if (off < 1e-15) break;
  }
  return { values: A.map((row, i) => row[i]), vectors: V };
}

/** The two constants of a graph whose edges tick at equal rates, in all 1: mu_g and R. */
function graphConstants(n, edges) {
  const P = 1 / edges.length;
  const Lambda = Array.from({ length: n }, () => new Array(n).fill(0));
  for (const [i, j] of edges) {
    Lambda[i][i] += P;
    Lambda[j][j] += P;
    Lambda[i][j] -= P;
    Lambda[j][i] -= P;
  }
  const { values, vectors } = eigen(Lambda);
  const order = values.map((_, i) => i).sort((p, q) => values[p] - values[q]);
  const others = order.slice(1);
  const resistance = ([i, j]) =>
    others.reduce((sum, m) => sum + (vectors[i][m] - vectors[j][m]) ** 2 / values[m], 0);
  return { mu: values[order[1]], R: Math.max(...edges.map(resistance)) };
}

function isConnected(n, edges) {
  const seen = new Set([0]);
  for (let grown = true; grown; ) {
    grown = false;
    for (const [i, j] of edges) {
      if (seen.has(i) !== seen.has(j)) {
        seen.add(i).add(j);
        grown = true;
      }
    }
  }
  return n > 0 && seen.size === n;
}

/** Nodes that exchange over the edges: a request, an answer with the transfer, both applied once. */
class Gossip {
  constructor(graph, accelerated, seed) {
    Object.assign(this, graph, { accelerated });
    const n = graph.places.length;
    this.x = Array.from({ length: n }, (_, i) => i / (n - 1));
    this.z = [...this.x];
    this.touched = new Array(n).fill(0);
    this.busy = new Array(n).fill(false);
    this.dead = new Set();
    this.clock = new Random(seed);
    this.luck = new Random(seed + 7919);
    [this.t, this.ticks, this.done] = [0, 0, 0];
    this.next = this.clock.exponential();
    this.mail = []; // {at, act}, few at a time
    this.flashes = [];
    // Plain gossip is the same process without mixing, and with equal steps.
    this.theta = accelerated ? graph.theta : 0;
    this.steps = accelerated ? [0.5, graph.gammaPrime] : [0.5, 0.5];
    this.history = [[0, this.error()]];
  }
  /** Bring a node to the present. */
  mix(i) {
    const dt = this.t - this.touched[i];
    [this.x[i], this.z[i]] = mix_over(this.x[i], this.z[i], dt, this.theta);
    this.touched[i] = this.t;
  }
  jump(i, difference) {
    this.mix(i);
    [this.x[i], this.z[i]] = jump(this.x[i], this.z[i], difference, ...this.steps);
  }
  living() {
    return this.x.map((_, i) => i).filter((i) => !this.dead.has(i));
  }
  /** The mean square distance from the mean, over the living. */
  error() {
    const nodes = this.living();
    const now = nodes.map((i) => mix_over(this.x[i], this.z[i], this.t - this.touched[i], this.theta)[0]);
    const mean = now.reduce((sum, v) => sum + v, 0) / nodes.length;
    return now.reduce((sum, v) => sum + (v - mean) ** 2, 0) / nodes.length;
  }
  send(act, again) {
    const isLost = this.luck.uniform() < state.loss;
    const at = this.t + state.delay;
    if (!isLost) this.mail.push({ at, act });
    else if (again) this.mail.push({ at: at + Math.max(0.1, 2 * state.delay), act: () => this.send(act, true) });
    return !isLost;
  }
  tick() {
    const edge = this.clock.below(this.edges.length);
    const [i, j] = this.clock.uniform() < 0.5 ? this.edges[edge] : [...this.edges[edge]].reverse();
    this.ticks += 1;
    if (this.dead.has(i) || this.busy[i]) return;
    this.mix(i);
    const sent = this.x[i];
    this.busy[i] = true;
    const asked = this.send(() => {
      if (this.dead.has(j) || this.busy[j]) {
        this.busy[i] = false; // refused, or nobody answers
        return;
      }
      this.mix(j);
      const transfer = sent - this.x[j];
      this.jump(j, -transfer);
      this.flashes.push({ edge, at: this.t });
      this.send(() => {
        this.jump(i, transfer); // a dead node's share waits for it
        this.busy[i] = false;
        this.done += 1;
      }, true);
    }, false);
    if (!asked) this.busy[i] = false;
  }
  /** Go on until so many ticks of the clock have been. */
  advance(ticks) {
    const every = Math.max(1, Math.floor(this.x.length / 4));
    while (this.ticks < ticks) {
      let soonest = -1;
      this.mail.forEach((m, k) => {
        if (soonest < 0 || m.at < this.mail[soonest].at) soonest = k;
      });
      if (soonest >= 0 && this.mail[soonest].at <= this.next) {
        const [{ at, act }] = this.mail.splice(soonest, 1);
        this.t = at;
        act();
        continue;
      }
      this.t = this.next;
      this.next += this.clock.exponential();
      this.tick();
      while (this.mail.length && state.delay === 0 && this.mail[0].at <= this.t) this.mail.shift().act();
      if (this.ticks % every === 0) this.history.push([this.ticks, this.error()]);
    }
    if (this.flashes.length > 40) this.flashes.splice(0, this.flashes.length - 40);
  }
}

const net = { pair: [], ticks: 0, playing: false, last: 0, chosen: -1, graph: null };

function makeGraph() {
  let [places, edges] = [[], []];
  if (state.graph === "own") {
    places = state.own_nodes ? state.own_nodes.split(";").map((p) => p.split(",").map(Number)) : [];
    edges = state.own_edges ? state.own_edges.split(";").map((p) => p.split(",").map(Number)) : [];
    edges = edges.filter(([i, j]) => i in places && j in places && i !== j);
  } else [places, edges] = GRAPHS[state.graph](state.nodes);
  const graph = { places, edges, usable: places.length > 1 && isConnected(places.length, edges) };
  if (graph.usable) {
    const { mu, R } = graphConstants(places.length, edges);
    const L = 2 * R;
    Object.assign(graph, {
      mu, R, theta: DAMPING * 2 * omega(L, Math.min(mu, L)),
      gammaPrime: exponential_gamma_prime(L, Math.min(mu, L)),
    });
  }
  return graph;
}

function makeNetwork() {
  net.graph = makeGraph();
  net.ticks = 0;
  net.pair = net.graph.usable
    ? [false, true].map((accelerated) => new Gossip(net.graph, accelerated, 3 * state.seed + 5))
    : [];
  const dead = state.dead ? state.dead.split(",").map(Number) : [];
  for (const gossip of net.pair) dead.forEach((i) => i in gossip.x && gossip.dead.add(i));
  playNetwork(false);
}

function nodeColour(value) {
  const v = Math.max(0, Math.min(1, value));
  const [cold, warm] = [[49, 104, 189], [214, 96, 40]];
  const rgb = cold.map((c, k) => {
    const middle = 236;
    const s = 2 * v - 1;
    return Math.round(s < 0 ? middle + (c - middle) * -s : middle + (warm[k] - middle) * s);
  });
  return `rgb(${rgb.join()})`;
}

const placeNode = (canvas, [x, y]) => [
  18 + x * (canvas.clientWidth - 36),
  18 + y * (canvas.clientHeight - 36),
];

function drawGraph(canvas, gossip) {
  const { pen } = open(canvas);
  const { places, edges } = net.graph;
  const at = places.map((p) => placeNode(canvas, p));
  for (const [i, j] of edges) line(pen, [at[i], at[j]], css("--soft"), { width: 1, alpha: 0.5 });
  if (gossip) {
    for (const { edge, at: when } of gossip.flashes) {
      const alpha = Math.max(0, 1 - (gossip.t - when) / 12);
      const [i, j] = edges[edge];
      if (alpha > 0) line(pen, [at[i], at[j]], css("--bound"), { width: 3, alpha });
    }
  }
  const apart = at.flatMap((p, i) => at.slice(i + 1).map((q) => distance2(p, q)));
  const radius = Math.max(4, Math.min(13, 0.42 * Math.sqrt(Math.min(...apart))));
  places.forEach((_, i) => {
    const isDead = gossip?.dead.has(i);
    const value = gossip ? gossip.x[i] : i / Math.max(1, places.length - 1);
    const rim = i === net.chosen ? css("--bound") : css("--ink");
    dot(pen, at[i], radius, isDead ? css("--paper") : nodeColour(value), rim);
    if (isDead) {
      const r = radius * 0.6;
      const [x, y] = at[i];
      line(pen, [[x - r, y - r], [x + r, y + r]], css("--ink"), { width: 2 });
      line(pen, [[x - r, y + r], [x + r, y - r]], css("--ink"), { width: 2 });
    }
  });
}

function drawErrors() {
  const view = open($("errors"));
  const right = Math.max(100, 100 * Math.ceil((net.ticks * 1.1) / 100));
  const all = net.pair.flatMap((g) => g.history.map(([, v]) => v)).filter((v) => v > 1e-30);
  const top = all.length ? Math.ceil(Math.log10(Math.max(...all))) : 0;
  const bottom = Math.max(-30, Math.min(top - 4, all.length ? Math.floor(Math.log10(Math.min(...all))) : -4));
  const axes = logAxes(view, {
    right, top, bottom, xLabel: "ticks of the clock", yLabel: "mean square distance",
  });
  axes.clip();
  const looks = [
    { name: "plain", colour: css("--descent"), dash: [6, 3], width: 2 },
    { name: "accelerated", colour: css("--continuized"), width: 2 },
  ];
  net.pair.forEach((g, k) =>
    line(view.pen, g.history.map(([n, v]) => [axes.x(n), axes.y(v)]), looks[k].colour, looks[k]),
  );
  view.pen.restore();
  legend(view.pen, axes.area, looks);
}

function drawNetwork() {
  drawGraph($("plain"), net.pair[0]);
  drawGraph($("accelerated"), net.pair[1]);
  drawErrors();
  $("graph_help").textContent =
    state.graph === "own"
      ? "Click to add a node; click two nodes to join them. Shift and click kills a node."
      : "";
  if (!net.pair.length) {
    $("net_numbers").textContent = "The graph is not connected yet: join its nodes.";
    return;
  }
  const { mu, theta } = net.graph;
  const [plain, accelerated] = net.pair;
  $("net_numbers").textContent =
    `${Math.floor(net.ticks)} ticks; exchanges done: ${plain.done} plain, ${accelerated.done} accelerated. Rates: ` +
    `plain ${short(mu / 2)}, accelerated ${short(theta)}: ` +
    (theta > mu / 2 ? `${short(theta / (mu / 2))} times quicker.` : "nothing is gained on this graph.");
}

function goToTicks(ticks) {
  if (!net.pair.length) return;
  net.ticks = ticks;
  for (const gossip of net.pair) gossip.advance(Math.floor(ticks));
  drawNetwork();
}

function playNetwork(isOn) {
  net.playing = isOn && net.pair.length > 0;
  $("net_play").textContent = net.playing ? "Pause" : "Play";
  $("net_play").setAttribute("aria-pressed", String(net.playing));
  net.last = performance.now();
  if (net.playing) requestAnimationFrame(animateNetwork);
}

function animateNetwork(now) {
  if (!net.playing) return;
  const seconds = Math.min(0.1, (now - net.last) / 1000);
  net.last = now;
  goToTicks(net.ticks + state.net_speed * seconds);
  if (net.ticks > 1e6) playNetwork(false);
  else requestAnimationFrame(animateNetwork);
}

/** Kill a living node, or revive a dead one. */
function toggleNode(i) {
  for (const gossip of net.pair) {
    if (!(i in gossip.x)) continue;
    if (gossip.dead.has(i)) gossip.dead.delete(i);
    else if (gossip.living().length > 1) gossip.dead.add(i);
    state.dead = [...gossip.dead].join(",");
  }
  keepAddress();
  drawNetwork();
}

function clickGraph(event) {
  const canvas = event.currentTarget;
  const box = canvas.getBoundingClientRect();
  const at = [event.clientX - box.left, event.clientY - box.top];
  const hit = net.graph.places.findIndex((p) => distance2(placeNode(canvas, p), at) < 16 ** 2);
  if (state.graph !== "own" || event.shiftKey) {
    if (hit >= 0) toggleNode(hit);
    return;
  }
  const { places, edges } = net.graph;
  if (hit < 0) {
    if (places.length >= 64) return say("64 nodes are the most.");
    const inside = (v) => Number(Math.max(0, Math.min(1, v)).toFixed(3));
    const x = inside((at[0] - 18) / (canvas.clientWidth - 36));
    const y = inside((at[1] - 18) / (canvas.clientHeight - 36));
    state.own_nodes = [...places, [x, y]].map((p) => p.join(",")).join(";");
  } else if (net.chosen < 0 || net.chosen === hit) {
    net.chosen = net.chosen === hit ? -1 : hit;
    return drawNetwork();
  } else {
    const isNew = !hasEdge(edges, net.chosen, hit);
    if (isNew) state.own_edges = [...edges, [net.chosen, hit]].map((p) => p.join(",")).join(";");
    net.chosen = -1;
  }
  makeNetwork();
  drawNetwork();
  keepAddress();
}

function networkTable() {
  const rows = ["method,ticks,mean_square_distance"];
  for (const gossip of net.pair) {
    const name = gossip.accelerated ? "accelerated" : "plain";
    for (const [n, v] of gossip.history) rows.push([name, n, v].join(","));
  }
  return `${rows.join("\n")}\n`;
}
