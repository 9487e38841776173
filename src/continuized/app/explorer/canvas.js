// Drawing: colours of the theme, canvases that are sharp on every screen, axes, contours.

// To ask for a colour takes as long as to draw a line, and colours change with the theme only.
const colours = new Map();
function css(name) {
  const key = `${document.documentElement.dataset.theme} ${name}`;
  if (!colours.has(key)) {
    const style = getComputedStyle(document.documentElement);
    colours.set(key, style.getPropertyValue(name).trim());
  }
  return colours.get(key);
}

/** The 2D context of a canvas, with CSS pixels as units, cleared; and its size. */
function open(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.fillStyle = css("--paper");
  pen.fillRect(0, 0, width, height);
  pen.font = "12px system-ui, sans-serif";
  pen.lineJoin = "round";
  return { pen, width, height };
}

function line(pen, points, colour, { width = 1.5, dash = [], alpha = 1 } = {}) {
  if (points.length < 2) return;
  pen.save();
  pen.globalAlpha = alpha;
  pen.strokeStyle = colour;
  pen.lineWidth = width;
  pen.setLineDash(dash);
  pen.beginPath();
  points.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
  pen.stroke();
  pen.restore();
}

function dot(pen, [x, y], radius, colour, rim) {
  pen.beginPath();
  pen.arc(x, y, radius, 0, 2 * Math.PI);
  pen.fillStyle = colour;
  pen.fill();
  if (rim) {
    pen.strokeStyle = rim;
    pen.lineWidth = 1.5;
    pen.stroke();
  }
}

/** Round numbers from low to high, about so many. */
function ticks(low, high, about) {
  const rough = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) {
    found.push(Number((i * step).toPrecision(12)));
  }
  return found;
}

/** Axes with a logarithmic ordinate (given as powers of ten); returns how to place a point. */
function logAxes(view, { right, top, bottom, xLabel, yLabel }) {
  const { pen, width, height } = view;
  const area = { left: 54, right: width - 12, top: 12, bottom: height - 40 };
  const x = (t) => area.left + ((area.right - area.left) * t) / right;
  const y = (v) => area.top + ((area.bottom - area.top) * (top - v)) / (top - bottom);
  pen.strokeStyle = css("--rule");
  pen.fillStyle = css("--soft");
  pen.lineWidth = 1;
  pen.textAlign = "center";
  for (const t of ticks(0, right, Math.max(2, width / 90))) {
    line(pen, [[x(t), area.top], [x(t), area.bottom]], css("--rule"), { width: 1 });
    pen.fillText(String(t), x(t), area.bottom + 16);
  }
  pen.textAlign = "right";
  const step = Math.max(1, Math.ceil((top - bottom) / (height / 36)));
  for (let v = Math.ceil(bottom); v <= top; v++) {
    if (((v % step) + step) % step) continue;
    line(pen, [[area.left, y(v)], [area.right, y(v)]], css("--rule"), { width: 1 });
    pen.fillText(v === 0 ? "1" : `1e${v}`, area.left - 6, y(v) + 4);
  }
  pen.textAlign = "center";
  pen.fillText(xLabel, (area.left + area.right) / 2, height - 6);
  pen.save();
  pen.translate(12, (area.top + area.bottom) / 2);
  pen.rotate(-Math.PI / 2);
  pen.fillText(yLabel, 0, 0);
  pen.restore();
  const clip = () => {
    pen.save();
    pen.beginPath();
    pen.rect(area.left, area.top, area.right - area.left, area.bottom - area.top);
    pen.clip();
  };
  return { x, y: (v) => y(v > 0 ? Math.log10(v) : bottom - 1), area, clip };
}

/** A legend at the bottom left, where curves that fall leave room: names beside their lines. */
function legend(pen, area, entries) {
  pen.textAlign = "left";
  const widest = Math.max(...entries.map((e) => pen.measureText(e.name).width));
  const [left, height] = [area.left + 10, 16 * entries.length + 8];
  const top = area.bottom - height - 8;
  pen.globalAlpha = 0.85;
  pen.fillStyle = css("--paper");
  pen.fillRect(left - 4, top, widest + 44, height);
  pen.globalAlpha = 1;
  entries.forEach((e, i) => {
    const y = top + 16 + 16 * i;
    line(pen, [[left, y - 4], [left + 26, y - 4]], e.colour, { width: e.width ?? 2, dash: e.dash ?? [] });
    pen.fillStyle = css("--ink");
    pen.fillText(e.name, left + 32, y);
  });
}

/** The segments of the contour lines of values on a grid (rows of equal length), in grid units. */
function contour(values, level) {
  const segments = [];
  for (let j = 0; j + 1 < values.length; j++) {
    for (let i = 0; i + 1 < values[j].length; i++) {
      const corners = [
        [i, j, values[j][i]],
        [i + 1, j, values[j][i + 1]],
        [i + 1, j + 1, values[j + 1][i + 1]],
        [i, j + 1, values[j + 1][i]],
      ];
      const cuts = [];
      for (let side = 0; side < 4; side++) {
        const [p, q] = [corners[side], corners[(side + 1) % 4]];
        if (p[2] < level !== q[2] < level) {
          const s = (level - p[2]) / (q[2] - p[2]);
          cuts.push([p[0] + s * (q[0] - p[0]), p[1] + s * (q[1] - p[1])]);
        }
      }
      for (let c = 0; c + 1 < cuts.length; c += 2) segments.push([cuts[c], cuts[c + 1]]);
    }
  }
  return segments;
}

/** Save what a link points to under a name. */
function save(name, href) {
  const link = document.createElement("a");
  link.href = href;
  link.download = name;
  link.click();
}

const saveText = (name, text) => {
  const href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  save(name, href);
  setTimeout(() => URL.revokeObjectURL(href), 1000);
};

/** Several canvases of a view below each other, as one picture. */
function savePicture(name, canvases) {
  const whole = document.createElement("canvas");
  whole.width = Math.max(...canvases.map((c) => c.width));
  whole.height = canvases.reduce((sum, c) => sum + c.height, 0);
  const pen = whole.getContext("2d");
  pen.fillStyle = css("--paper");
  pen.fillRect(0, 0, whole.width, whole.height);
  let top = 0;
  for (const c of canvases) {
    pen.drawImage(c, 0, top);
    top += c.height;
  }
  save(name, whole.toDataURL("image/png"));
}
