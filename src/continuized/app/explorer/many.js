// Many runs at once: quantiles, the mean, the exact mean where f is quadratic, and the bound.

const many = { key: "", result: null };

function quantile(sorted, q) {
  const place = q * (sorted.length - 1);
  const low = Math.floor(place);
  return sorted[low] + (place - low) * (sorted[Math.min(low + 1, sorted.length - 1)] - sorted[low]);
}

/** f - f* of every run at a grid of times, as columns of sorted values; and what is exact. */
function runMany() {
  const c = constants();
  const method = state.many_method === "sharp" && c.mu === 0 ? "continuized" : state.many_method;
  const points = 160;
  const times = Array.from({ length: points + 1 }, (_, i) => (state.until * i) / points);
  const lowest = minimum();
  const columns = times.map(() => []);
  for (let run = 0; run < state.runs; run++) {
    const clock = new Clock(state.seed * 1009 + run + 1);
    const path = new Path(method, currentFunction(), c, startPoint(), clock);
    times.forEach((t, i) => columns[i].push(Math.max(0, path.at(t).f - lowest)));
  }
  const means = columns.map((column) => column.reduce((sum, v) => sum + v, 0) / column.length);
  columns.forEach((column) => column.sort((p, q) => p - q));
  return { c, method, times, columns, means, exact: exactMean(c, method, times) };
}

/** E f(x_t) - f* by exact second moments, for quadratics and the paper's parameters; else null. */
function exactMean(c, method, times) {
  const curvatures = CURVATURES[state.f]?.(state.kappa);
  if (!curvatures || method !== "continuized") return null;
  const away = startPoint().map((v, i) => v - FUNCTIONS[state.f].minimiser[i]);
  const parts = curvatures.map((lambda, i) =>
    exactSecondMoment(c, lambda, away[i], times, c.noise * c.noise).map((m) => 0.5 * lambda * m),
  );
  return times.map((_, i) => parts[0][i] + parts[1][i]);
}

function drawMany() {
  const key = JSON.stringify([state, document.documentElement.dataset.theme]);
  if (many.key !== key) {
    many.result = runMany();
    many.key = key;
  }
  const { c, method, times, columns, means, exact } = many.result;
  const view = open($("fan"));
  const { pen } = view;
  const positive = columns.flat().filter((v) => v > 1e-16);
  const top = Math.ceil(Math.log10(Math.max(...positive) * 2));
  const low = columns.map((column) => quantile(column, 0.05)).filter((v) => v > 1e-16);
  const bottom = Math.max(-16, Math.min(top - 3, Math.floor(Math.log10(Math.min(...low)))));
  const axes = logAxes(view, {
    right: state.until, top, bottom, xLabel: "time", yLabel: "f(xₜ) − f*",
  });
  axes.clip();
  const place = (values) => values.map((v, i) => [axes.x(times[i]), axes.y(v)]);
  const at = (q) => columns.map((column) => quantile(column, q));
  const colour = css("--continuized");
  for (const [from, to, alpha] of [[0, 1, 0.1], [0.05, 0.95, 0.16], [0.25, 0.75, 0.25]]) {
    pen.globalAlpha = alpha;
    pen.fillStyle = colour;
    pen.beginPath();
    [...place(at(to)), ...place(at(from)).reverse()].forEach(([x, y], i) =>
      i ? pen.lineTo(x, y) : pen.moveTo(x, y),
    );
    pen.fill();
    pen.globalAlpha = 1;
  }
  const names = [];
  const draw = (name, values, look) => {
    line(pen, place(values), look.colour, look);
    names.push({ name, ...look });
  };
  draw("median", at(0.5), { colour, width: 2 });
  draw("mean of the runs", means, { colour, width: 1.6, dash: [5, 3] });
  if (exact) draw("exact mean", exact, { colour: css("--ink"), width: 1.6, dash: [1, 3] });
  if (isCovered(c) && method === "continuized") {
    const start = startPoint();
    const first = currentFunction().value(...start) - minimum();
    const far = distance2(start, FUNCTIONS[state.f].minimiser);
    const bound = times.map((t) => (t > 0 ? lyapunov.bound(c, t, first, far) : Infinity));
    draw("bound of the mean", bound, { colour: css("--bound"), width: 1.8, dash: [8, 4] });
  }
  pen.restore();
  legend(pen, axes.area, names);
  const end = `${means.at(-1).toExponential(3)}`;
  const known = exact ? `; exactly ${exact.at(-1).toExponential(3)}` : "";
  $("fan_numbers").textContent =
    `${columns[0].length} runs. At time ${state.until} the mean of f − f* is ${end}${known}; shaded: ` +
    "all runs, 90 % and 50 % of them.";
}

function manyTable() {
  const { times, columns, means, exact } = many.result;
  const rows = ["t,mean,exact_mean,q05,q25,median,q75,q95"];
  times.forEach((t, i) => {
    const quantiles = [0.05, 0.25, 0.5, 0.75, 0.95].map((q) => quantile(columns[i], q));
    rows.push([t, means[i], exact ? exact[i] : "", ...quantiles].join(","));
  });
  return `${rows.join("\n")}\n`;
}
