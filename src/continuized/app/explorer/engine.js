// Runs of the process.  The scalar formulas come from the Python source (`translate`); here they are
// put together.

/** Random numbers from a seed: xoshiro128**, seeded by splitmix32. */
class Random {
  constructor(seed) {
    let s = seed >>> 0;
    this.words = Uint32Array.from({ length: 4 }, () => {
      s = (s + 0x9e3779b9) >>> 0;
      let v = s;
      v = Math.imul(v ^ (v >>> 16), 0x21f0aaad);
      v = Math.imul(v ^ (v >>> 15), 0x735a2d97);
      return (v ^ (v >>> 15)) >>> 0;
    });
  }
  word() {
    const w = this.words;
    const rotate = (v, n) => (v << n) | (v >>> (32 - n));
    const result = Math.imul(rotate(Math.imul(w[1], 5), 7), 9) >>> 0;
    const shifted = w[1] << 9;
    w[2] ^= w[0];
    w[3] ^= w[1];
    w[1] ^= w[2];
    w[0] ^= w[3];
    w[2] ^= shifted;
    w[3] = rotate(w[3], 11);
    return result;
  }
  /** In (0, 1), with 53 bits. */
  uniform() {
    const high = this.word() >>> 5;
    const low = this.word() >>> 6;
    return (high * 67108864 + low + 0.5) / 9007199254740992;
  }
  exponential() {
    return -Math.log(this.uniform());
  }
  normal() {
    return Math.sqrt(-2 * Math.log(this.uniform())) * Math.cos(2 * Math.PI * this.uniform());
  }
  below(n) {
    return Math.floor(this.uniform() * n);
  }
}

/** The gaps of a Poisson clock of rate 1 and the noise of its events, drawn when they are asked for. */
class Clock {
  constructor(seed) {
    this.times = new Random(2 * seed);
    this.marks = new Random(2 * seed + 1);
    this.gaps = [];
    this.normals = [];
  }
  gap(k) {
    while (this.gaps.length <= k) this.gaps.push(this.times.exponential());
    return this.gaps[k];
  }
  /** Two independent standard normal numbers of event k. */
  normal(k) {
    while (this.normals.length <= k) this.normals.push([this.marks.normal(), this.marks.normal()]);
    return this.normals[k];
  }
}

/** The rule and the flow of a method, and the constants that they take: as `cz.Method` chooses. */
function formOf(method, c) {
  if (method === "gradient-descent") return [gradient_descent_rule, no_flow, [c.L, 0, 0]];
  if (method === "nesterov") return [nesterov_rule, no_flow, [c.L, c.mu, 0]];
  if (method === "sharp") return [sharp_rule, sharp_flow, [c.L, c.mu, 0]];
  if (c.tau < 1) {
    if (c.mu === 0) return [quasar_convex_rule, quasar_convex_flow, [c.L, c.tau, c.start]];
    return [quasar_exponential_rule, quasar_exponential_flow, [c.L, c.mu, c.tau]];
  }
  if (c.mu === 0) return [convex_rule, convex_flow, [c.L, 0, c.start]];
  if (c.start === Infinity) return [exponential_rule, exponential_flow, [c.L, c.mu, c.start]];
  return [hyperbolic_rule, hyperbolic_flow, [c.L, c.mu, c.start]];
}

const CONTINUOUS = new Set(["continuized", "sharp"]);

/** A path of one method in the plane: the states after its events, made when they are asked for. */
class Path {
  /** f: value and gradient of two variables; c: L, mu, start, tau, noise (its standard deviation). */
  constructor(method, f, c, x0, clock) {
    [this.rule, this.flow, this.constants] = formOf(method, c);
    Object.assign(this, { method, f, noise: c.noise, clock, events: [] });
    this.states = [{ k: 0, t: 0, x: [...x0], z: [...x0], carry: 0, f: f.value(...x0) }];
  }
  get isContinuous() {
    return CONTINUOUS.has(this.method);
  }
  step() {
    const last = this.states.at(-1);
    const dt = this.isContinuous ? this.clock.gap(last.k) : 1;
    const t = last.t + dt;
    const k = last.k + 1;
    const [a, b, g1, g2, carry] = this.rule(k, last.t, t, dt, last.carry, ...this.constants);
    const mixed = [0, 1].map((i) => mix(last.x[i], last.z[i], a, b));
    const y = mixed.map((pair) => pair[0]);
    const g = this.f.gradient(...y);
    if (this.noise > 0) this.clock.normal(last.k).forEach((n, i) => (g[i] += this.noise * n));
    const after = mixed.map(([y_i, z_i], i) => jump(y_i, z_i, g[i], g1, g2));
    const [x, z] = [0, 1].map((part) => after.map((pair) => pair[part]));
    this.events.push({ t, dt, y, w: mixed.map((pair) => pair[1]) });
    this.states.push({ k, t, x, z, carry, f: this.f.value(...x) });
  }
  /** How many events there are up to time t. */
  countUntil(t) {
    while (this.states.at(-1).t <= t && this.states.length < 100000) this.step();
    let [low, high] = [0, this.states.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.states[middle].t <= t) low = middle;
      else high = middle - 1;
    }
    return low;
  }
  /** x, z and f at time t, between events by the flow. */
  at(t) {
    const last = this.states[this.countUntil(t)];
    if (!this.isContinuous) return last;
    const [a, b] = this.flow(last.t, t, t - last.t, ...this.constants);
    const pairs = [0, 1].map((i) => mix(last.x[i], last.z[i], a, b));
    const [x, z] = [0, 1].map((part) => pairs.map((pair) => pair[part]));
    return { k: last.k, t, x, z, f: this.f.value(...x) };
  }
}

/** phi_t of the theorem, and what follows from it: bounds of E f(x_t) - f*, and of whole runs. */
const lyapunov = {
  phi(c, t, excess, distance2) {
    const A = log_A(t, c.L, c.mu, c.start, c.tau);
    const B = log_B(t, c.L, c.mu, c.start, c.tau);
    return (A === -Infinity ? 0 : Math.exp(A) * excess) + Math.exp(B) * distance2;
  },
  /** Theorem 3, and with noise of this standard deviation in each of the two entries Theorem 6. */
  bound(c, t, excess, distance2) {
    const own = [c.L, c.mu, c.start, c.tau];
    const first = this.phi(c, 0, excess, distance2) * Math.exp(-log_A(t, ...own));
    if (c.noise === 0) return first;
    return first + ((2 * c.noise * c.noise) / c.L) * Math.exp(log_mean_A(t, ...own));
  },
  /** What a whole run stays below with probability 1 - delta, without noise: by phi, and where
   * Theorem A holds by its V as well; as `cz.theory.path_bound`. */
  pathBound(c, t, excess, distance2, delta) {
    const paper = Math.log(this.bound({ ...c, noise: 0 }, t, excess, distance2));
    if (!hasTheoremA(c) || !(excess > 0)) return Math.exp(paper) / delta;
    const [rho, nu] = decay_numbers_A(2 * omega(c.L, c.mu));
    const start = excess + 0.5 * nu * c.mu * distance2;
    const sharper = Math.log(start) - Math.log1p(-nu) - rho * t;
    return Math.exp(log_harmonic_mean(sharper, paper)) / delta;
  },
};

const ROUNDING = 1e-12;
const hasTheoremA = (c) =>
  c.mu > 0 && c.start === Infinity && c.tau === 1 && LEAST_A * c.mu * (1 - ROUNDING) <= c.L;

/** E (x - x*)^2 along one eigenvector of a quadratic, exact but for the steps of Runge and Kutta,
 * relatively about 1e-7; noise: the variance of one entry of a gradient. */
function exactSecondMoment(c, lambda, u0, times, noise) {
  const own = [c.L, c.mu, c.start, c.tau];
  let m = [u0 * u0, u0 * u0, u0 * u0];
  // eta is infinite at t + start = 0: x is drawn to z whatever happens, and an event before this
  // time changes what comes by the third power of it.
  let t = c.mu > 0 && c.start === Infinity ? 0 : Math.max(0, 1e-3 - c.start);
  const slope = (s, [uu, uw, ww]) => {
    const moved = flow_slope(eta(s, ...own), eta_prime(s, ...own), 1, 1, uu, uw, uw, ww);
    const [a, b] = [gamma(c.L), gamma_prime(s, ...own)];
    const spread = lambda * lambda * uu + noise;
    return [
      moved[0] + jump_slope(a, a, spread, lambda * uu, lambda * uu),
      moved[1] + jump_slope(a, b, spread, lambda * uw, lambda * uu),
      moved[2] + jump_slope(b, b, spread, lambda * uw, lambda * uw),
    ];
  };
  const add = (p, h, q) => p.map((value, i) => value + h * q[i]);
  return times.map((end) => {
    while (t < end) {
      const h = Math.min(end - t, 0.02, 0.05 / eta(t, ...own));
      const k1 = slope(t, m);
      const k2 = slope(t + h / 2, add(m, h / 2, k1));
      const k3 = slope(t + h / 2, add(m, h / 2, k2));
      const k4 = slope(t + h, add(m, h, k3));
      m = m.map((value, i) => value + (h / 6) * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]));
      t = t + h < end ? t + h : end;
    }
    return m[0];
  });
}
