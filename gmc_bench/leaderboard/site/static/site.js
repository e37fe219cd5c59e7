// Sorting, filtering and comparing. Pages are complete without it.
// Text goes in through textContent only, so that names from records stay text.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const NONE = "—";

function make(tag, text, className) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
}

function draw(parent, tag, attributes, title) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (title !== undefined) {
    const text = document.createElementNS(SVG, "title");
    text.textContent = title;
    node.append(text);
  }
  parent.append(node);
  return node;
}

function free(text) {
  return make("bdi", text, "free");
}

// Sorting

function sortValue(row, column, numeric) {
  const cell = row.cells[column];
  const text = cell.dataset.sort ?? cell.textContent.trim();
  if (!numeric) return text === NONE ? "" : text.toLowerCase();
  if (text === "") return null;
  const value = Number(text.replaceAll(",", ""));
  return Number.isFinite(value) ? value : null;
}

function sortBy(table, header, column) {
  const numeric = header.dataset.type === "num";
  const before = header.getAttribute("aria-sort");
  // Scores are best when high; a rank and a name are read upwards.
  const first = numeric && header.textContent.trim() !== "#" ? "descending" : "ascending";
  const other = first === "descending" ? "ascending" : "descending";
  const order = before === first ? other : first;
  for (const cell of header.parentElement.cells) cell.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", order);
  const sign = order === "ascending" ? 1 : -1;
  const body = table.tBodies[0];
  const rows = Array.from(body.rows, (row) => [row, sortValue(row, column, numeric)]);
  rows.sort(([, a], [, b]) => {
    const aMissing = a === null || a === "";
    const bMissing = b === null || b === "";
    if (aMissing || bMissing) return aMissing - bMissing; // missing comes last either way
    if (numeric) return sign * (a - b);
    return sign * a.localeCompare(b, "en", { numeric: true });
  });
  body.append(...rows.map(([row]) => row));
}

function makeSortable(table) {
  Array.from(table.tHead.rows[0].cells).forEach((header, column) => {
    if (header.dataset.plain !== undefined) return;
    const button = make("button", undefined, "sort");
    button.type = "button";
    button.append(...header.childNodes);
    header.append(button);
    button.addEventListener("click", () => sortBy(table, header, column));
  });
}

// Filter box and toggle

function connectTools(tools) {
  const table = document.getElementById(tools.dataset.tools);
  const filter = tools.querySelector("[data-filter]");
  const toggle = tools.querySelector("[data-toggle]");
  const count = tools.querySelector("[data-count]");
  const rows = Array.from(table.tBodies[0].rows, (row) => [row, row.textContent.toLowerCase()]);
  function update() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const [row, text] of rows) {
      const wanted = !toggle || toggle.checked || row.dataset.incomplete === undefined;
      row.hidden = !(wanted && words.every((word) => text.includes(word)));
      shown += !row.hidden;
    }
    count.textContent = shown === rows.length ? `${shown} rows` : `${shown} of ${rows.length} rows`;
  }
  filter.addEventListener("input", update);
  if (toggle) {
    if (rows.some(([row]) => row.dataset.incomplete !== undefined)) {
      toggle.addEventListener("change", update);
    } else {
      toggle.parentElement.hidden = true;
    }
  }
  tools.hidden = false;
  update(); // a browser may have kept what was typed before
}

// Comparing two methods

function formatted(value, digits) {
  if (value === null) return NONE;
  if (Math.abs(value) >= 1e9) return value.toExponential(3);
  return value.toLocaleString("en", {
    minimumFractionDigits: digits, maximumFractionDigits: digits, signDisplay: "negative",
  });
}

function withInterval([value, low, high], digits) {
  const text = formatted(value, digits);
  if (low === null && high === null) return text;
  return `${text} (${formatted(low, digits)} to ${formatted(high, digits)})`;
}

function ratioDigits([value, low]) {
  return (low ?? value) >= 0.1 ? 2 : 4;
}

function turned(pair) {
  // The same pair seen from the second method.
  const each = (turn, [value, low, high]) =>
    [value, high, low].map((x) => (x === null ? null : turn(x)));
  const inverse = (x) => (x > 0 ? 1 / x : null);
  return {
    ...pair,
    difference: -pair.difference,
    estimate: each(pair.isRatio ? inverse : (x) => -x, pair.estimate),
    probability: each((x) => 1 - x, pair.probability),
  };
}

function findPair(data, first, second) {
  const there = data.pairs.find((pair) => pair.first === first && pair.second === second);
  if (there) return there;
  const back = data.pairs.find((pair) => pair.first === second && pair.second === first);
  return back ? turned(back) : null;
}

function showVerdict(data, first, second) {
  const verdict = document.getElementById("verdict");
  const pair = findPair(data, first, second);
  if (!pair) {
    verdict.textContent = "Pick two different methods.";
    return;
  }
  verdict.textContent =
    (pair.isRatio
      ? `Difference of means, first − second: ${formatted(pair.difference, data.digits)}. ` +
        `Ratio, first / second: ${withInterval(pair.estimate, ratioDigits(pair.estimate))}. `
      : `Difference of means, first − second: ${withInterval(pair.estimate, data.digits)}. `) +
    `Probability that the first is better on a body: ${withInterval(pair.probability, 2)}. ` +
    (pair.distinguishable ? "They can be told apart." : "They cannot be told apart.");
}

function showSides(data, first, second) {
  const sides = [data.rows[first], data.rows[second]];
  ["side-first", "side-second"].forEach((id, place) => {
    const link = make("a");
    link.href = sides[place].page;
    link.append(free(sides[place].label));
    document.getElementById(id).replaceChildren(link);
  });
  const lines = sides[0].numbers.map(([name], line) => {
    const row = make("tr");
    const head = make("th", name);
    head.scope = "row";
    row.append(head);
    for (const side of sides) {
      const [, text, detail] = side.numbers[line];
      const cell = make("td", text, "num");
      if (detail) cell.append(" ", make("span", detail, "detail"));
      row.append(cell);
    }
    return row;
  });
  document.querySelector("#sides tbody").replaceChildren(...lines);
}

function matched(data, first, second) {
  const a = data.rows[first];
  const b = data.rows[second];
  const scores = new Map(b.bodies.map((body, place) => [body, b.scores[place]]));
  return a.bodies
    .map((body, place) => [body, a.scores[place], scores.get(body) ?? null])
    .filter(([, x, y]) => x !== null && y !== null);
}

function showScatter(points) {
  const svg = document.getElementById("scatter");
  svg.replaceChildren();
  if (!points.length) return;
  const values = points.flatMap(([, x, y]) => [x, y]);
  const low = Math.min(0, ...values);
  const high = Math.max(...values) > low ? Math.max(...values) : low + 1;
  const place = (value) => 50 + (290 * (value - low)) / (high - low);
  const round = (value) => value.toFixed(1);
  for (const value of [low, (low + high) / 2, high]) {
    const at = place(value);
    const label = value.toLocaleString("en", { notation: "compact", maximumSignificantDigits: 3 });
    draw(svg, "line", { class: "grid", x1: 50, x2: 340, y1: round(360 - at), y2: round(360 - at) });
    draw(svg, "line", { class: "grid", x1: round(at), x2: round(at), y1: 20, y2: 310 });
    draw(svg, "text", { class: "y", x: 44, y: round(364 - at) }).textContent = label;
    draw(svg, "text", { class: "x", x: round(at), y: 328 }).textContent = label;
  }
  draw(svg, "text", { class: "x", x: 195, y: 348 }).textContent = "First";
  draw(svg, "text", { x: 50, y: 13 }).textContent = "Second";
  draw(svg, "line", { class: "diagonal", x1: 50, y1: 310, x2: 340, y2: 20 });
  for (const [body, x, y] of points) {
    const at = { class: "point", cx: round(place(x)), cy: round(360 - place(y)), r: 4 };
    draw(svg, "circle", at, body);
  }
}

function showBodies(points, digits) {
  const lines = points.map(([body, x, y]) => {
    const row = make("tr");
    const head = make("th", undefined, "name");
    head.scope = "row";
    head.append(free(body));
    row.append(head);
    for (const value of [x, y, x - y]) row.append(make("td", formatted(value, digits), "num"));
    return row;
  });
  document.querySelector("#by-body tbody").replaceChildren(...lines);
}

function startComparing(section) {
  const data = JSON.parse(document.getElementById("compare-data").textContent);
  const selects = [document.getElementById("first"), document.getElementById("second")];
  selects.forEach((select, place) => {
    data.rows.forEach((row, index) => {
      // A direction override would run on through the list.
      const option = make("option", row.label.replace(/[\p{C}\p{Zl}\p{Zp}]+/gu, " "));
      option.value = index;
      select.append(option);
    });
    select.value = place;
    select.addEventListener("change", show);
  });
  function show() {
    const [first, second] = selects.map((select) => Number(select.value));
    const points = matched(data, first, second);
    showVerdict(data, first, second);
    showSides(data, first, second);
    showScatter(points);
    showBodies(points, data.digits);
  }
  section.hidden = false;
  show();
}

document.querySelectorAll("table[data-sortable]").forEach(makeSortable);
document.querySelectorAll("[data-tools]").forEach(connectTools);
const section = document.getElementById("pick");
if (section) startComparing(section);
