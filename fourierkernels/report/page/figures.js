// Drawings in SVG: dendrogram and plane of the heads of a layer, a scatter of heads, pruning curves.

function ticks(low, high, count = 4) {
  const raw = (high - low || 1) / count;
  const unit = 10 ** Math.floor(Math.log10(raw));
  const step = unit * [1, 2, 5, 10].find((factor) => factor * unit >= raw * 0.999);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at += 1) {
    found.push(Number((at * step).toPrecision(12)));
  }
  return found;
}

function picture(width, height, label, ...children) {
  const box = { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label };
  return drawn("svg", box, ...children);
}

function line(points, className) {
  return drawn("polyline", { points: points.map((at) => at.join(",")).join(" "), class: className });
}

function lettering(x, y, anchor, content, className = "") {
  return drawn("text", { x, y, "text-anchor": anchor, class: className }, content);
}

function upAxis(at, scale, values, right) {
  const words = ticksInWords(values);
  return values.flatMap((value, place) => [
    line([[at, scale(value)], [right, scale(value)]], "axis"),
    lettering(at - 5, scale(value) + 4, "end", words[place]),
  ]);
}

function treePicture(drawing, head) {
  const [left, bottom, width, height] = [48, 205, 420, 230];
  const heads = drawing.leaves.length;
  const top = Math.max(...drawing.y.flat()) || 1;
  const x = (leaf) => left + ((leaf + 0.5) / heads) * (width - left);
  const y = (distance) => bottom - (distance / top) * (bottom - 10);
  const every = Math.ceil((heads * 20) / (width - left));
  const chosen = drawing.leaves.indexOf(head);
  const shown = (place) => place === chosen
    || (place % every === 0 && Math.abs(place - chosen) >= every);
  const labels = drawing.leaves.map((leaf, place) => shown(place) && lettering(
    x(place), bottom + 18, "middle", String(leaf + 1), place === chosen ? "chosen" : ""));
  const brackets = drawing.x.map((across, k) =>
    line(across.map((leaf, corner) => [x(leaf), y(drawing.y[k][corner])]), "mark"));
  return picture(width, height, "Dendrogram of the heads, average linkage",
    ...upAxis(left, y, ticks(0, top), width), ...brackets, ...labels.filter(Boolean));
}

function planePicture(drawing, head) {
  const size = 300;
  const points = drawing.points;
  const ends = [0, 1].map((k) => {
    const values = points.map((point) => point[k]);
    return [Math.min(...values), Math.max(...values)];
  });
  const span = Math.max(...ends.map(([low, high]) => high - low)) || 1;
  const scale = (size - 60) / span;
  const at = (point) => point.map((value, k) => {
    const middle = (ends[k][0] + ends[k][1]) / 2;
    return size / 2 + (k ? -1 : 1) * (value - middle) * scale;
  });
  const unit = ticks(0, span, 4)[1];
  const ruler = line([[8, size - 8], [8 + unit * scale, size - 8]], "mark");
  return picture(size, size + 16, "Heads in a plane, near each other where their maps are alike",
    drawn("rect", { x: 1, y: 1, width: size - 2, height: size - 2, class: "axis" }),
    ruler, lettering(8, size + 12, "start", `distance ${ticksInWords([0, unit])[1]}`),
    ...besideEachOther(points.map(at)).flatMap(([x, y, left, top], k) => [
      drawn("circle", { cx: x, cy: y, r: 3, class: k === head ? "dot chosen" : "spot" }),
      line([[x, y], [left, top]], "axis"),
      lettering(left, top + 5, "middle", String(k + 1), k === head ? "chosen" : ""),
    ]));
}

// Where the label of each point goes: as near to it as the labels before it allow.
function besideEachOther(points) {
  const taken = points.map(([x, y]) => [x, y, 4]);
  return points.map(([x, y]) => {
    const free = (left, top) => taken.every(([a, b, half]) =>
      Math.abs(a - left) >= half + 8 || Math.abs(b - top) >= half + 7);
    const tries = [];
    for (let ring = 12; ring < 150; ring += 6) {
      for (let turn = 0; turn < 12; turn += 1) {
        const angle = (turn * Math.PI) / 6;
        tries.push([x + ring * Math.cos(angle), y - ring * Math.sin(angle)]);
      }
    }
    const inside = ([left, top]) => left > 10 && left < 290 && top > 10 && top < 285;
    const [left, top] = tries.find((spot) => inside(spot) && free(...spot)) ?? tries[0];
    taken.push([left, top, 8]);
    return [x, y, left, top];
  });
}

// One dot a head; those of the layer are filled, the chosen one has its interval.
function scatterPicture(across, up, layer, head) {
  const [left, bottom, width, height] = [62, 245, 440, 290];
  const range = (values) => {
    const known = values.flat().filter((value) => value !== null);
    const [low, high] = [Math.min(...known), Math.max(...known)];
    const pad = (high - low || 1) * 0.05;
    return [low - pad, high + pad];
  };
  const [x0, x1] = range(across.values);
  const [y0, y1] = range([...up.values, ...up.low, ...up.high]);
  const x = (value) => left + ((value - x0) / (x1 - x0)) * (width - left - 12);
  const y = (value) => bottom - ((value - y0) / (y1 - y0)) * (bottom - 30); // its title is above
  const dots = [];
  up.values.forEach((row, r) => row.forEach((value, c) => {
    const chosen = r === layer && c === head;
    const kind = chosen ? "dot layer chosen" : r === layer ? "dot layer" : "dot";
    const spot = { cx: x(across.values[r][c]), cy: y(value), r: chosen ? 6 : 4, class: kind,
      "data-layer": r, "data-head": c };
    const name = `layer ${r + 1}, head ${c + 1}: ${inWords(across.values[r][c])}, ${inWords(value)}`;
    dots.push([chosen ? 2 : r === layer ? 1 : 0, drawn("circle", spot, drawn("title", {}, name))]);
  }));
  dots.sort((a, b) => a[0] - b[0]);
  const steps = ticks(x0, x1);
  const words = ticksInWords(steps);
  const [low, high] = [up.low, up.high].map((ends) => ends[layer]?.[head] ?? null);
  const bar = low === null || high === null ? [] : [line(
    [low, high].map((end) => [x(across.values[layer][head]), y(end)]), "mark")];
  return picture(width, height, `${up.title} against ${across.title}, a dot a head`,
    ...upAxis(left, y, ticks(y0, y1), width),
    ...steps.map((value, place) => lettering(x(value), bottom + 18, "middle", words[place])),
    lettering((left + width) / 2, bottom + 38, "middle", across.title),
    lettering(4, 12, "start", up.title), ...bar, ...dots.map((dot) => dot[1]));
}

// Loss by the number of heads pruned; solid by importance, dashed in random order.
function curvesPicture({ removed, losses, random, description }) {
  const [left, bottom, width, height] = [62, 245, 460, 290];
  const known = [...losses, ...random].filter((value) => value !== null);
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const last = removed.at(-1) || 1;
  const x = (count) => left + 6 + (count / last) * (width - left - 20);
  const y = (loss) => bottom - 6 - ((loss - low) / (high - low || 1)) * (bottom - 40);
  const curve = (values, style, dot) => {
    const at = removed.map((count, k) => [x(count), values[k], `${count}`])
      .filter(([, value]) => value !== null);
    return [line(at.map(([across, value]) => [across, y(value)]), `mark ${style}`),
      ...at.map(([across, value, count]) => drawn("circle",
        { cx: across, cy: y(value), r: 4, class: dot },
        drawn("title", {}, `${count} pruned: ${inWords(value)}`)))];
  };
  const steps = ticks(0, last).filter(Number.isInteger);
  return picture(width, height, `${description} by the number of heads pruned, in two orders`,
    ...upAxis(left, y, ticks(low, high), width),
    ...steps.map((count) => lettering(x(count), bottom + 18, "middle", String(count))),
    lettering((left + width) / 2, bottom + 38, "middle", "heads pruned"),
    lettering(4, 12, "start", description),
    ...curve(random, "dashed", "dot"), ...curve(losses, "", "dot chosen"));
}
