"use strict";
(() => {
  const data = JSON.parse(document.getElementById("scene").textContent);
  const map = document.getElementById("map");
  if (!map) return;
  const stage = document.getElementById("stage");
  const scale = document.getElementById("scale");
  const where = document.getElementById("where");
  const [rows, cols] = data.shape; // height and width of the map, a cell being one high; everything is kept in them
  const view = { k: 1, x: 0, y: 0 }; // screen pixels a cell, and where the first cell's corner is
  const marks = new Map();
  const paths = new Map();
  let least = 0.01;

  // ---- layers
  const ground = document.getElementById("ground");
  const overlays = [...stage.querySelectorAll("img[data-layer]")];
  const legends = [...document.querySelectorAll("[data-legend]")];
  const opacity = document.getElementById("opacity");
  const outlines = document.getElementById("outlines");

  function place(image, row, col, height, width) {
    image.style.left = `${col}px`;
    image.style.top = `${row}px`;
    image.style.width = `${width}px`;
    image.style.height = `${height}px`;
  }
  for (const image of [ground, ...overlays]) {
    place(image, 0, 0, data.cover[0], data.cover[1]);
  }
  place(outlines, 0, 0, rows, cols);

  // Close views of plumes lie over the coarse pictures, cell by cell.
  for (const plume of data.plumes) {
    const article = document.getElementById(plume.anchor);
    if (!article || !plume.window) continue;
    for (const kind of ["ground", "enhancement"]) {
      const known = article.querySelector(`image[data-close="${kind}"]`);
      if (!known) continue;
      const image = new Image();
      image.src = known.getAttribute("href");
      image.alt = "";
      const [first, left, height, width] = plume.window;
      place(image, first, left, height, width);
      if (kind === "ground") {
        ground.after(image);
      } else {
        image.dataset.layer = "enhancement";
        overlays.push(image);
        outlines.before(image);
      }
    }
  }

  function showLayer(name) {
    for (const image of overlays) image.hidden = image.dataset.layer !== name;
    for (const legend of legends) legend.hidden = legend.dataset.legend !== name;
    map.dataset.layer = name;
  }
  for (const input of document.querySelectorAll('input[name="layer"]')) {
    input.addEventListener("change", () => input.checked && showLayer(input.value));
    if (input.checked) showLayer(input.value);
  }
  if (opacity) {
    const set = () => { for (const image of overlays) image.style.opacity = opacity.value / 100; };
    opacity.addEventListener("input", set);
    set();
  }
  for (const [id, selector] of [["show-outlines", "path:not(.truth)"], ["show-truth", "path.truth"]]) {
    const box = document.getElementById(id);
    if (!box) continue;
    box.addEventListener("change", () => {
      for (const path of outlines.querySelectorAll(selector)) path.style.display = box.checked ? "" : "none";
      if (id === "show-outlines") for (const mark of marks.values()) mark.hidden = !box.checked;
    });
  }

  // ---- the Earth
  function degrees(row, col) {
    if (!data.nodes) return null;
    const n = data.nodes.lon.length - 1;
    const a = Math.min(Math.max(row / rows, 0), 1) * n, b = Math.min(Math.max(col / cols, 0), 1) * n;
    const i = Math.min(Math.floor(a), n - 1), j = Math.min(Math.floor(b), n - 1);
    const u = a - i, v = b - j;
    const mix = (t) => (1 - u) * ((1 - v) * t[i][j] + v * t[i][j + 1]) + u * ((1 - v) * t[i + 1][j] + v * t[i + 1][j + 1]);
    const lon = mix(data.nodes.lon), lat = mix(data.nodes.lat);
    return Number.isFinite(lon) && Number.isFinite(lat) ? [lon, lat] : null;
  }
  const wrapped = (lon) => ((lon + 540) % 360) - 180;
  const named = (value, positive, negative, digits) =>
    `${Math.abs(value).toFixed(digits)}°\u202f${value < 0 ? negative : positive}`;
  function roundStep(least) {
    const base = 10 ** Math.floor(Math.log10(least));
    return [1, 2, 5, 10].map((s) => s * base).find((s) => s >= least * 0.999999);
  }

  // Labels of round degrees along the left and the lower edge.
  const labels = [];
  function drawDegrees(width, height) {
    let used = 0;
    const put = (text, left, top) => {
      let label = labels[used];
      if (!label) {
        label = document.createElement("span");
        label.className = "degree";
        label.setAttribute("aria-hidden", "true");
        map.append(label);
        labels.push(label);
      }
      label.textContent = text;
      label.style.transform = `translate(${left}px, ${top}px)`;
      label.hidden = false;
      used += 1;
    };
    const edge = (length, at, axis, most, draw) => {
      const samples = 24, found = [];
      for (let s = 0; s <= samples; s += 1) {
        const t = (s / samples) * length;
        const cell = axis === 1 ? [(at - view.y) / view.k, (t - view.x) / view.k] : [(t - view.y) / view.k, (at - view.x) / view.k];
        if (cell[axis] < 0 || cell[axis] > [rows, cols][axis]) continue;
        const here = degrees(...cell);
        if (here) found.push([here[1 - axis], t]);
      }
      if (found.length < 2) return;
      const span = Math.abs(found[found.length - 1][0] - found[0][0]);
      if (!(span > 0)) return;
      const step = roundStep(span / most), digits = Math.max(0, Math.ceil(-Math.log10(step) - 1e-9));
      for (let s = 1; s < found.length; s += 1) {
        const [[a, ta], [b, tb]] = [found[s - 1], found[s]];
        const low = Math.min(a, b), high = Math.max(a, b);
        for (let m = Math.ceil(low / step); m * step <= high; m += 1) {
          if (m * step === low && s > 1) continue;
          draw(m * step, ta + ((m * step - a) / (b - a)) * (tb - ta), digits);
        }
      }
    };
    edge(width, height, 1, Math.max(2, width / 170), (value, t, digits) => {
      if (t > 46 && t < width - 46) put(named(wrapped(value), "E", "W", digits), t - 26, height - 20);
    });
    edge(height, 0, 0, Math.max(2, height / 130), (value, t, digits) => {
      if (t > 14 && t < height - 76) put(named(value, "N", "S", digits), 4, t - 9);
    });
    for (let rest = used; rest < labels.length; rest += 1) labels[rest].hidden = true;
  }

  // ---- drawing
  function draw() {
    const width = map.clientWidth, height = map.clientHeight;
    stage.style.transform = `translate(${view.x}px, ${view.y}px) scale(${view.k})`;
    stage.classList.toggle("near", view.k * data.step > 2);
    outlines.style.setProperty("--px", 1 / view.k); // lines keep their width on the screen
    for (const plume of data.plumes) {
      const mark = marks.get(plume.id);
      if (!mark) continue;
      const left = plume.label[1] * view.k + view.x, top = plume.label[0] * view.k + view.y - 6;
      mark.style.transform = `translate(${left}px, ${top}px) translate(-50%, -100%)`;
      // What is out of sight must not be reached by the keyboard: the browser would scroll the map to it.
      mark.style.visibility = left > 0 && left < width && top > 0 && top < height + 30 ? "" : "hidden";
    }
    if (data.cell_m) {
      const wanted = (Math.min(width * 0.3, 170) / view.k) * data.cell_m;
      const base = 10 ** Math.floor(Math.log10(wanted));
      const metres = Math.max(...[1, 2, 5].map((s) => s * base).filter((s) => s <= wanted));
      scale.firstElementChild.textContent = metres >= 1000 ? `${metres / 1000} km` : `${metres} m`;
      scale.lastElementChild.style.width = `${(metres / data.cell_m) * view.k}px`;
    }
    drawDegrees(width, height);
    map.dataset.zoom = view.k.toFixed(4);
  }
  function keepInside() {
    const width = map.clientWidth, height = map.clientHeight;
    // Some of the scene stays in sight, wherever it is dragged to.
    const hold = (size, full, at) => {
      const kept = 0.4 * Math.min(size, full);
      return Math.min(Math.max(at, kept - full), size - kept);
    };
    view.x = hold(width, cols * view.k, view.x);
    view.y = hold(height, rows * view.k, view.y);
  }
  function zoomAt(px, py, factor) {
    const k = Math.min(Math.max(view.k * factor, least), 40);
    view.x = px - ((px - view.x) * k) / view.k;
    view.y = py - ((py - view.y) * k) / view.k;
    view.k = k;
    keepInside();
    draw();
  }
  function show(first, left, height, width, margin) {
    const room = [map.clientWidth, map.clientHeight];
    view.k = Math.min(40, (margin * room[0]) / width, (margin * room[1]) / height);
    view.x = room[0] / 2 - (left + width / 2) * view.k;
    view.y = room[1] / 2 - (first + height / 2) * view.k;
    draw();
  }
  function whole() {
    least = 0.6 * Math.min(map.clientWidth / cols, map.clientHeight / rows);
    show(0, 0, rows, cols, 0.97);
  }
  function glide(move) {
    stage.classList.add("gliding");
    move();
    setTimeout(() => stage.classList.remove("gliding"), 400);
  }

  // ---- plumes
  function select(id, zoom) {
    for (const plume of data.plumes) {
      const current = plume.id === id;
      const pick = document.querySelector(`.pick[data-plume="${plume.number}"]`);
      if (pick) {
        pick.setAttribute("aria-current", String(current));
        if (current) pick.scrollIntoView({ block: "nearest" });
      }
      marks.get(plume.id)?.setAttribute("aria-pressed", String(current));
      for (const path of paths.get(plume.id) ?? []) path.classList.toggle("current", current);
      if (current && zoom && plume.box) {
        const [first, left, height, width] = plume.box;
        glide(() => show(first, left, height, width, 0.55));
      }
    }
    map.dataset.plume = id ?? "";
  }
  for (const plume of data.plumes) {
    if (plume.label) {
      const mark = document.createElement("button");
      mark.type = "button";
      mark.className = "mark";
      mark.textContent = plume.letter;
      mark.setAttribute("aria-label", `Zoom to plume ${plume.letter}`);
      mark.setAttribute("aria-pressed", "false");
      mark.addEventListener("click", () => select(plume.id, true));
      map.insertBefore(mark, scale);
      marks.set(plume.id, mark);
    }
    const own = [...outlines.querySelectorAll(`path[data-plume="${plume.number}"]`)];
    paths.set(plume.id, own);
    for (const path of own) path.addEventListener("click", () => moved || select(plume.id, true));
    document.querySelector(`.pick[data-plume="${plume.number}"]`)?.addEventListener("click", () => select(plume.id, true));
  }

  // ---- hands: mouse, fingers, keys
  const fingers = new Map();
  let moved = false;
  const at = (event) => {
    const box = map.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const tellPlace = (px, py) => {
    const here = degrees((py - view.y) / view.k, (px - view.x) / view.k);
    if (where && here) where.textContent = `${named(here[1], "N", "S", 5)}, ${named(wrapped(here[0]), "E", "W", 5)}`;
  };
  map.addEventListener("pointerdown", (event) => {
    if (event.target.closest("button")) return;
    fingers.set(event.pointerId, at(event));
    if (fingers.size === 1) moved = false;
  });
  map.addEventListener("pointermove", (event) => {
    const [px, py] = at(event);
    tellPlace(px, py);
    const before = fingers.get(event.pointerId);
    if (!before) return;
    if (!moved && Math.hypot(px - before[0], py - before[1]) < 4 && fingers.size === 1) return;
    if (!moved) map.setPointerCapture(event.pointerId);
    moved = true;
    map.classList.add("moving");
    stage.classList.remove("gliding");
    if (fingers.size === 1) {
      view.x += px - before[0];
      view.y += py - before[1];
    } else {
      const other = [...fingers].find(([id]) => id !== event.pointerId)[1];
      const apart = Math.hypot(before[0] - other[0], before[1] - other[1]);
      const now = Math.hypot(px - other[0], py - other[1]);
      view.x += (px - before[0]) / 2;
      view.y += (py - before[1]) / 2;
      if (apart > 0) zoomAt((px + other[0]) / 2, (py + other[1]) / 2, now / apart);
    }
    fingers.set(event.pointerId, [px, py]);
    keepInside();
    draw();
    tellPlace(px, py); // the ground under the pointer has moved
  });
  const lifted = (event) => {
    fingers.delete(event.pointerId);
    if (!fingers.size) map.classList.remove("moving");
  };
  map.addEventListener("pointerup", lifted);
  map.addEventListener("pointercancel", lifted);
  map.addEventListener("wheel", (event) => {
    event.preventDefault();
    stage.classList.remove("gliding");
    zoomAt(...at(event), Math.exp(-event.deltaY * (event.deltaMode === 1 ? 0.05 : 0.0018)));
  }, { passive: false });
  map.addEventListener("dblclick", (event) => event.target.closest("button") || zoomAt(...at(event), 2));
  const middle = (factor) => zoomAt(map.clientWidth / 2, map.clientHeight / 2, factor);
  const steps = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
  map.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const plume = data.plumes.find((known) => known.letter.toLowerCase() === event.key.toLowerCase());
    if (steps[event.key]) {
      view.x += steps[event.key][0];
      view.y += steps[event.key][1];
      keepInside();
      draw();
    } else if (event.key === "+" || event.key === "=") middle(1.5);
    else if (event.key === "-" || event.key === "_") middle(1 / 1.5);
    else if (event.key === "0" || event.key === "Home" || event.key === "Escape") { select(null, false); glide(whole); }
    else if (plume && event.target === map) select(plume.id, true);
    else return;
    event.preventDefault();
  });
  document.getElementById("zoom-in").addEventListener("click", () => middle(1.6));
  document.getElementById("zoom-out").addEventListener("click", () => middle(1 / 1.6));
  document.getElementById("zoom-all").addEventListener("click", () => { select(null, false); glide(whole); });

  // ---- beginning, another size, paper
  let width = 0;
  new ResizeObserver(() => requestAnimationFrame(() => {
    if (map.clientWidth === width) return draw();
    width = map.clientWidth;
    return whole();
  })).observe(map);
  map.addEventListener("scroll", () => map.scrollTo(0, 0)); // it moves by its own means only
  addEventListener("beforeprint", whole);
  document.documentElement.dataset.ready = "true";
})();
