// Interactive charts: the drawing of a page, made anew by uPlot from the numbers beside it.
// Pages are complete without it. Text goes in as text only; colours and dashes are those of the drawing.
"use strict";
(() => {
  const WIDTH = 640, HEIGHT = 320, SHOWN = 8;

  function compact(value) {
    return value.toLocaleString("en", { notation: "compact", maximumSignificantDigits: 4 });
  }

  function setting(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  /** Lengths of ink and gaps in pixels of the screen, in which uPlot counts them; undefined for a solid line. */
  function dashesOf({ dashes }) {
    return dashes ? setting(`--d${dashes}`).split(" ").map((length) => length * window.devicePixelRatio) : undefined;
  }

  /** A short piece of a line for the legend. */
  function sample({ colour, dashes }) {
    const space = "http://www.w3.org/2000/svg";
    const picture = document.createElementNS(space, "svg"), line = document.createElementNS(space, "line");
    picture.setAttribute("viewBox", "0 0 32 8");
    picture.setAttribute("aria-hidden", "true");
    line.setAttribute("class", `line c${colour} d${dashes}`);
    for (const [name, value] of Object.entries({ x1: 0, y1: 4, x2: 32, y2: 4 })) line.setAttribute(name, value);
    picture.append(line);
    return picture;
  }

  /** Put the lines of all series on common places along x. */
  function tableOf(series) {
    const parts = series.map(({ x, y, low, high }) => (low ? [x, y, low, high] : [x, y]));
    return uPlot.join(parts);
  }

  function draw(figure) {
    const { series } = JSON.parse(figure.querySelector("script").textContent);
    const style = getComputedStyle(figure);
    const muted = getComputedStyle(figure.querySelector("figcaption")).color;
    const grid = setting("--line");
    const options = [{ label: figure.dataset.x, value: (_, at) => (at === null ? "" : compact(at)) }];
    const bands = [], samples = new Map();
    series.forEach((item, number) => {
      const stroke = setting(`--c${item.colour}`), dash = dashesOf(item), show = number < SHOWN;
      const place = options.length;
      const value = (_, at) => (at === null ? "" : compact(at));
      samples.set(place, sample(item));
      options.push({ label: item.label, stroke, dash, show, width: 2, spanGaps: true, points: { show: false }, value });
      if (item.low) {
        const edge = { stroke: "transparent", show, width: 0, spanGaps: true, points: { show: false }, class: "edge" };
        options.push({ ...edge, label: "" }, { ...edge, label: "" });
        bands.push({ series: [place + 2, place + 1], fill: fainter(stroke) });
      }
    });
    const axis = { stroke: muted, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 },
      values: (_, at) => at.map(compact), font: `12px ${style.fontFamily}` };
    const box = document.createElement("div");
    box.className = "plot";
    figure.prepend(box);
    const width = Math.max(280, Math.min(WIDTH * 1.4, box.clientWidth - 8));
    const plot = new uPlot({
      width, height: HEIGHT, series: options, bands, scales: { x: { time: false } },
      axes: [axis, { ...axis, size: 64 }], cursor: { y: false }, legend: { live: true },
    }, tableOf(series), box);
    const wrap = plot.root.querySelector(".u-wrap");
    wrap.setAttribute("role", "img");
    wrap.setAttribute("aria-label", figure.querySelector(":scope > svg").getAttribute("aria-label"));
    const rows = plot.root.querySelectorAll(".u-legend tr");
    for (const [place, picture] of samples) rows[place].querySelector(".u-marker").replaceWith(picture);
    const buttons = options.map(({ show }, place) => (place > 0 ? switchIn(rows[place].querySelector("th"), show) : null));
    // A band belongs to its line: it has no entry of its own, and comes and goes with it.
    plot.root.querySelectorAll(".u-legend tr.edge").forEach((row) => { row.hidden = true; });
    plot.hooks.setSeries = [(_, place, changes) => {
      if (place === null || changes.show === undefined) return;
      buttons[place].setAttribute("aria-pressed", changes.show);
      const banded = bands.find(({ series: [, low] }) => low === place + 1);
      if (banded) for (const edge of banded.series) plot.setSeries(edge, { show: changes.show }, false);
    }];
    figure.querySelectorAll(":scope > svg, :scope > .key").forEach((node) => { node.hidden = true; node.remove(); });
    window.addEventListener("resize", () => {
      const wanted = Math.max(280, Math.min(WIDTH * 1.4, box.clientWidth - 8));
      if (wanted !== plot.width) plot.setSize({ width: wanted, height: HEIGHT });
    });
  }

  /** Make what stands in a cell of the legend a button; its clicks reach the cell, which uPlot listens to. */
  function switchIn(cell, show) {
    const button = document.createElement("button");
    button.type = "button";
    button.setAttribute("aria-pressed", show);
    button.append(...cell.childNodes);
    cell.append(button);
    return button;
  }

  function fainter(colour) {
    return `${colour}26`; // #rrggbb with 15 % of its ink
  }

  document.querySelectorAll("[data-chart]").forEach(draw);
})();
