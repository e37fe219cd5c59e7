// The player: draws episodes that were recorded, or one that is simulated while you look.
// Everything it shows stands in the page's data; every text goes in as text, never as markup.
"use strict";
(async () => {
  const MAX_TILES = 6; // pictures side by side
  const FIELD_OF_VIEW = 35; // degrees, of the shorter side
  const SMOOTHING = 0.4; // s, of the path that the camera follows
  const SPEED_WINDOW = 0.5; // s over which the speed is averaged
  const PUSH = 1.5; // m/s
  const STEPS = { // of keys: rad around and up, share of the distance
    ArrowLeft: [-0.12, 0, 0], ArrowRight: [0.12, 0, 0], ArrowUp: [0, 0.08, 0], ArrowDown: [0, -0.08, 0],
    "+": [0, 0, -0.12], "=": [0, 0, -0.12], "-": [0, 0, 0.14],
  };
  const LENGTH_UNIT = 1e-4, TURN_UNIT = 1 / 32767;
  const SQUARES = { floor: [[204, 209, 214], [163, 173, 184]], patch: [[201, 212, 184], [158, 178, 148]] };
  const ENDINGS = { time_limit: "time limit", diverged: "simulation diverged" };
  const find = (id) => document.getElementById(id);
  const data = JSON.parse(find("data").textContent);

  // Data.

  async function unpack(text, Kind) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Kind(await new Response(stream).arrayBuffer());
  }

  /** Undo differences along the last of two dimensions, in place; whole numbers wrap as they did. */
  function summed(values, length) {
    for (let start = 0; start < values.length; start += length) {
      for (let k = start + 1; k < start + length; k++) values[k] += values[k - 1];
    }
    return values;
  }

  async function readMotion(packed) {
    const steps = await unpack(packed.steps, Int32Array);
    const frames = steps.length;
    return {
      frames,
      steps: summed(steps, frames),
      places: summed(await unpack(packed.places, Int32Array), frames),
      turns: summed(await unpack(packed.turns, Int16Array), frames),
      returns: await unpack(packed.returns, Float64Array),
      counts: await unpack(packed.contact_counts, Uint8Array),
      contacts: await unpack(packed.contacts, Int32Array),
    };
  }

  // Shapes.

  const squareTextures = {};
  function squares(kind) {
    if (!squareTextures[kind]) {
      const [light, dark] = SQUARES[kind];
      const pixels = new Uint8Array([...light, 255, ...dark, 255, ...dark, 255, ...light, 255]);
      const found = new THREE.DataTexture(pixels, 2, 2);
      found.wrapS = found.wrapT = THREE.RepeatWrapping;
      found.colorSpace = THREE.SRGBColorSpace;
      found.magFilter = THREE.NearestFilter;
      found.minFilter = THREE.LinearMipmapLinearFilter;
      found.generateMipmaps = true;
      found.anisotropy = 8;
      found.needsUpdate = true;
      squareTextures[kind] = found;
    }
    return squareTextures[kind];
  }

  /** Lay a texture of two by two squares onto a geometry, by its x and y. */
  function layFlat(geometry, square) {
    const place = geometry.getAttribute("position"), flat = new Float32Array(2 * place.count);
    for (let k = 0; k < place.count; k++) {
      flat[2 * k] = place.getX(k) / (2 * square);
      flat[2 * k + 1] = place.getY(k) / (2 * square);
    }
    geometry.setAttribute("uv", new THREE.BufferAttribute(flat, 2));
    return geometry;
  }

  async function fieldGeometry(shape) {
    const heights = await unpack(shape.heights, Uint16Array);
    const [halfX, halfY, relief] = shape.size, { rows, columns } = shape;
    const points = new Float32Array(3 * rows * columns);
    for (let row = 0, k = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++, k++) {
        points[3 * k] = halfX * ((2 * column) / (columns - 1) - 1);
        points[3 * k + 1] = halfY * ((2 * row) / (rows - 1) - 1);
        points[3 * k + 2] = (relief * heights[k]) / 65535;
      }
    }
    const corners = new Uint32Array(6 * (rows - 1) * (columns - 1));
    for (let row = 0, k = 0; row < rows - 1; row++) {
      for (let column = 0; column < columns - 1; column++, k += 6) {
        const a = row * columns + column, b = a + columns;
        corners.set([a, a + 1, b + 1, a, b + 1, b], k);
      }
    }
    return triangles(points, corners);
  }

  function triangles(points, corners) {
    const geometry = new THREE.BufferGeometry();
    geometry.setAttribute("position", new THREE.BufferAttribute(points, 3));
    geometry.setIndex(new THREE.BufferAttribute(corners, 1));
    geometry.computeVertexNormals();
    return geometry;
  }

  async function geometryOf(shape) {
    const [a, b, c] = shape.size;
    // MuJoCo's long axis is z, that of three.js is y.
    const upright = (geometry) => geometry.rotateX(Math.PI / 2);
    switch (shape.kind) {
      case "plane": return new THREE.PlaneGeometry(2 * (a || 200), 2 * (b || 200));
      case "field": return fieldGeometry(shape);
      case "sphere": return new THREE.SphereGeometry(a, 24, 16);
      case "capsule": return upright(new THREE.CapsuleGeometry(a, 2 * b, 8, 20));
      case "ellipsoid": return new THREE.SphereGeometry(1, 24, 16).scale(a, b, c);
      case "cylinder": return upright(new THREE.CylinderGeometry(a, a, 2 * b, 24));
      case "box": return new THREE.BoxGeometry(2 * a, 2 * b, 2 * c);
      default: return triangles(
        await unpack(shape.vertices, Float32Array), await unpack(shape.faces, Uint32Array));
    }
  }

  async function meshOf(shape, square) {
    const geometry = await geometryOf(shape);
    const options = { color: new THREE.Color().setRGB(...shape.color, THREE.SRGBColorSpace) };
    let material;
    if (shape.ground) {
      layFlat(geometry, square);
      material = new THREE.MeshLambertMaterial({ map: squares(shape.ground), side: THREE.DoubleSide });
    } else {
      material = new THREE.MeshStandardMaterial({ ...options, roughness: 0.55 });
    }
    const mesh = new THREE.Mesh(geometry, material);
    mesh.position.fromArray(shape.place);
    const [w, x, y, z] = shape.turn;
    mesh.quaternion.set(x, y, z, w);
    mesh.castShadow = shape.body >= 0;
    mesh.receiveShadow = true;
    return mesh;
  }

  /** Give back what a scene holds of the graphics memory; the textures are everybody's. */
  function free(scene) {
    scene.traverse((item) => {
      item.geometry?.dispose();
      item.material?.dispose();
      if (item.isLight || item.isInstancedMesh) item.dispose();
    });
  }

  /** Scenes that are shown no more. They go after the next picture, which takes over their shaders. */
  const past = [];
  function retire(scene) {
    past.push(scene);
    while (past.length > 2) free(past.shift()); // a hidden page is not drawn
  }

  // One picture: a body on its ground, and from where it is seen.

  class Tile {
    constructor(episode, motion) {
      this.episode = episode;
      this.motion = motion;
      this.element = document.createElement("section");
      this.element.className = "tile";
      this.element.tabIndex = 0;
      this.element.setAttribute("aria-label", `${episode.title}: arrows turn the picture, + and - zoom`);
      this.element.addEventListener("keydown", (event) => this.steer(event));
      this.caption = this.element.appendChild(document.createElement("div"));
      const line = (kind, className = "") => {
        const found = this.caption.appendChild(document.createElement(kind));
        found.className = className;
        return found;
      };
      this.title = line("h2");
      this.facts = line("p");
      this.numbers = line("p", "numbers");
      this.ending = line("p", "ended");
      this.title.textContent = episode.title;
      this.facts.textContent = episode.facts;
      this.camera = new THREE.PerspectiveCamera(FIELD_OF_VIEW, 1, 0.05, 400);
      this.camera.up.set(0, 0, 1);
      this.controls = new THREE.OrbitControls(this.camera, this.element);
      this.controls.addEventListener("change", () => { stale = true; });
      this.goal = new THREE.Vector3(); // what a following camera looks at
      this.reach = 0.3;
    }

    /** Build the scene; without it nothing can be posed. */
    async build() {
      const { episode } = this;
      const scene = new THREE.Scene();
      scene.background = new THREE.Color(0xdfe7f0);
      scene.fog = new THREE.Fog(0xdfe7f0, 20, 90);
      scene.add(new THREE.HemisphereLight(0xffffff, 0x9aa08f, 1.9));
      const sun = new THREE.DirectionalLight(0xffffff, 2.2);
      sun.castShadow = true;
      sun.shadow.mapSize.set(1024, 1024);
      scene.add(sun, sun.target);
      const groups = [];
      for (let body = 0; body < episode.bodies; body++) {
        groups.push(new THREE.Group());
        scene.add(groups[body]);
      }
      for (const shape of episode.shapes) {
        const mesh = await meshOf(shape, episode.square);
        (shape.body < 0 ? scene : groups[shape.body]).add(mesh);
      }
      const material = new THREE.MeshBasicMaterial({ color: 0xffb000 });
      const marks = new THREE.InstancedMesh(new THREE.SphereGeometry(1, 16, 8), material, 64);
      marks.frustumCulled = false;
      marks.count = 0;
      scene.add(marks);
      Object.assign(this, { scene, sun, groups, marks }); // all at once: it may be drawn meanwhile
      return this;
    }

    /** Show the same body on other ground; what looks at it stays as it is. */
    async exchange(episode) {
      const { scene } = this;
      this.episode = episode;
      await this.build();
      this.shade();
      retire(scene);
    }

    /** Forget everything. */
    dispose() {
      retire(this.scene);
      this.controls.dispose();
    }

    /** Look at the body as a whole; call once it is posed. */
    frame() {
      const torso = this.groups[0].position, point = new THREE.Vector3();
      for (const group of this.groups) {
        group.updateWorldMatrix(true, true);
        for (const mesh of group.children) {
          mesh.geometry.computeBoundingSphere();
          const away = mesh.getWorldPosition(point).distanceTo(torso);
          this.reach = Math.max(this.reach, away + mesh.geometry.boundingSphere.radius);
        }
      }
      this.shade();
      const azimuth = (105 * Math.PI) / 180, elevation = (-16 * Math.PI) / 180;
      const distance = (1.25 * this.reach) / Math.tan((FIELD_OF_VIEW * Math.PI) / 360);
      this.controls.target.copy(this.goal);
      this.camera.position.set(
        this.goal.x - distance * Math.cos(elevation) * Math.cos(azimuth),
        this.goal.y - distance * Math.cos(elevation) * Math.sin(azimuth),
        this.goal.z - distance * Math.sin(elevation));
      this.controls.update();
    }

    /** Let shadows reach as far as the body. */
    shade() {
      const shadow = this.sun.shadow.camera, side = 1.5 * this.reach;
      Object.assign(shadow, { left: -side, right: side, top: side, bottom: -side, near: 0.5, far: 30 });
      shadow.updateProjectionMatrix();
    }

    /** Turn or zoom by a key, as dragging and the wheel do. */
    steer(event) {
      const [turn, lift, zoom] = STEPS[event.key] ?? [0, 0, 0];
      if (!turn && !lift && !zoom) return;
      event.preventDefault();
      const away = this.camera.position.clone().sub(this.controls.target), far = away.length();
      const azimuth = Math.atan2(away.y, away.x) + turn;
      const elevation = Math.min(1.4, Math.max(-0.1, Math.asin(away.z / far) + lift));
      away.set(Math.cos(elevation) * Math.cos(azimuth), Math.cos(elevation) * Math.sin(azimuth), Math.sin(elevation));
      this.camera.position.copy(this.controls.target).addScaledVector(away, far * (1 + zoom));
      this.controls.update();
      stale = true;
    }

    /** Move the camera along with the body. */
    lookAt(x, y, z) {
      const next = new THREE.Vector3(x, y, z);
      if (find("follow").checked) {
        const moved = next.clone().sub(this.controls.target);
        this.controls.target.add(moved);
        this.camera.position.add(moved);
        this.controls.update();
      }
      this.goal.copy(next);
      this.sun.target.position.copy(next);
      this.sun.position.set(x - 3, y - 4, z + 10);
    }

    showContacts(points) {
      const size = 0.055 * this.reach;
      const matrix = new THREE.Matrix4().makeScale(size, size, 0.3 * size);
      const count = Math.min(points.length / 3, 64);
      for (let k = 0; k < count; k++) {
        matrix.setPosition(points[3 * k], points[3 * k + 1], points[3 * k + 2]);
        this.marks.setMatrixAt(k, matrix);
      }
      this.marks.count = find("contacts").checked ? count : 0;
      this.marks.instanceMatrix.needsUpdate = true;
    }

    write(speed, total, time, step) {
      const sign = speed < 0 ? "−" : "+";
      this.numbers.textContent =
        `${sign}${Math.abs(speed).toFixed(2)} m/s along x · return ${total.toFixed(2)} · ${time.toFixed(2)} s, step ${step}`;
    }

    /** Where the middle of the picture is that the camera looks at, pixels of the window. */
    center() {
      const box = this.element.getBoundingClientRect();
      const { x, y } = this.controls.target.clone().project(this.camera);
      return [box.left + ((1 + x) / 2) * box.width, box.top + ((1 - y) / 2) * box.height];
    }

    /** World position of a body as it is drawn, m. */
    position(body) {
      this.groups[body].updateWorldMatrix(true, false);
      return this.groups[body].getWorldPosition(new THREE.Vector3()).toArray();
    }
  }

  class RecordedTile extends Tile {
    async build() {
      await super.build();
      const { steps, counts, frames, places } = this.motion, dt = this.episode.control_dt;
      this.times = Float64Array.from(steps, (step) => step * dt);
      this.duration = this.times[frames - 1];
      this.firstContact = new Uint32Array(frames + 1);
      counts.forEach((count, k) => { this.firstContact[k + 1] = this.firstContact[k] + count; });
      // The whole path is known, so the camera does not lag behind.
      this.path = [0, 1, 2].map((axis) => {
        const line = places.subarray(axis * frames, (axis + 1) * frames), sums = new Float64Array(frames + 1);
        line.forEach((value, k) => { sums[k + 1] = sums[k] + value * LENGTH_UNIT; });
        const reach = Math.max(1, Math.round(SMOOTHING / (this.times[1] - this.times[0] || 1)));
        return Float64Array.from(line, (_, k) => {
          const low = Math.max(0, k - reach), high = Math.min(frames, k + reach + 1);
          return (sums[high] - sums[low]) / (high - low);
        });
      });
      this.pose(0);
      this.frame();
      return this;
    }

    frameAt(time) {
      let low = 0, high = this.motion.frames - 1;
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (this.times[middle] <= time + 1e-9) low = middle; else high = middle - 1;
      }
      return low;
    }

    pose(time) {
      const { frames, places, turns, returns, steps, contacts } = this.motion, { times } = this;
      const now = this.frameAt(time), next = Math.min(now + 1, frames - 1);
      const share = next > now ? Math.min(1, Math.max(0, (time - times[now]) / (times[next] - times[now]))) : 0;
      const at = (values, channel, unit) => {
        const first = channel * frames;
        return unit * (values[first + now] * (1 - share) + values[first + next] * share);
      };
      const turn = (body, frame) => {
        const [w, x, y, z] = [0, 1, 2, 3].map((k) => turns[(4 * body + k) * frames + frame] * TURN_UNIT);
        return new THREE.Quaternion(x, y, z, w).normalize();
      };
      this.groups.forEach((group, body) => {
        group.position.set(...[0, 1, 2].map((k) => at(places, 3 * body + k, LENGTH_UNIT)));
        group.quaternion.copy(turn(body, now)).slerp(turn(body, next), share);
      });
      this.lookAt(...this.path.map((line) => line[now] * (1 - share) + line[next] * share));
      const total = contacts.length / 3, points = [];
      for (let k = this.firstContact[now]; k < this.firstContact[now + 1]; k++) {
        for (let axis = 0; axis < 3; axis++) points.push(contacts[axis * total + k] * LENGTH_UNIT);
      }
      this.showContacts(points);
      const before = this.frameAt(times[now] - SPEED_WINDOW), passed = times[now] - times[before];
      const speed = passed > 0 ? ((places[now] - places[before]) * LENGTH_UNIT) / passed : 0;
      this.write(speed, returns[now], times[now], steps[now]);
      const over = now === frames - 1, why = this.episode.ended;
      this.ending.textContent = over ? `${ENDINGS[why] ?? why}: return ${this.episode.total.toFixed(2)}` : "";
    }
  }

  // Drawing.

  const canvas = find("picture");
  let renderer = null, stale = true, tiles = [];
  try {
    renderer = new THREE.WebGLRenderer({ canvas, antialias: true });
    renderer.setPixelRatio(Math.min(window.devicePixelRatio, 2));
    renderer.shadowMap.enabled = true;
    renderer.shadowMap.type = THREE.PCFShadowMap;
    renderer.setScissorTest(true);
  } catch (error) {
    remark("This browser has no WebGL, so that the numbers are here but no picture.");
  }

  function remark(text) {
    const place = find("remarks");
    place.hidden = false;
    place.textContent += (place.textContent ? "\n" : "") + text;
  }

  /** Draw all tiles onto one canvas, which lies under the part of them that is on the screen. */
  function draw() {
    if (!renderer) return;
    const stage = find("tiles").getBoundingClientRect();
    const top = Math.max(0, Math.floor(stage.top)), left = Math.floor(stage.left);
    const bottom = Math.ceil(Math.min(stage.bottom, find("controls").getBoundingClientRect().top));
    const width = Math.ceil(stage.right) - left, height = bottom - top;
    if (width < 1 || height < 1) return;
    Object.assign(canvas.style, { left: `${left}px`, top: `${top}px` });
    renderer.setSize(width, height);
    for (const { element, caption, camera, scene } of tiles) {
      const box = element.getBoundingClientRect();
      if (box.bottom < top || box.top > bottom || !box.width) continue;
      camera.aspect = box.width / box.height;
      // In a high picture the body fits the width.
      const half = Math.tan((FIELD_OF_VIEW * Math.PI) / 360) / Math.min(1, camera.aspect);
      camera.fov = (Math.atan(half) * 360) / Math.PI;
      // The body is in the middle of what the caption leaves free, which in a low picture hides it.
      const hidden = caption.getBoundingClientRect().bottom - box.top;
      camera.setViewOffset(box.width, box.height, 0, -hidden / 2, box.width, box.height);
      const place = [box.left - left, bottom - box.bottom, box.width, box.height];
      renderer.setViewport(...place);
      renderer.setScissor(...place);
      renderer.render(scene, camera);
    }
    past.splice(0).forEach(free);
  }

  /** Draw if anything has changed, also where the tiles are on the screen. */
  let layout = "";
  function refresh() {
    const boxes = tiles.map(({ element }) => element.getBoundingClientRect());
    const now = boxes.map((box) => [box.left, box.top, box.width, box.height]).join();
    if (!stale && now === layout) return;
    stale = false;
    layout = now;
    draw();
  }

  for (const event of ["resize", "scroll"]) window.addEventListener(event, () => { stale = true; });

  // On a phone the options begin folded; where there is room they are simply there.
  const narrow = matchMedia("(max-width: 40rem), (max-height: 30rem)");
  const fold = () => { find("options").open = !narrow.matches; };
  narrow.addEventListener("change", fold);
  fold();

  if (data.live) await live(); else await replay();

  // Recorded episodes.

  async function replay() {
    const clock = { time: 0, playing: !matchMedia("(prefers-reduced-motion: reduce)").matches };
    const slider = find("time"), play = find("play");
    for (const text of data.remarks) remark(text);
    const made = new Map(); // promises of tiles, by number
    let duration = 0, choices = 0;

    const make = async (episode) => new RecordedTile(episode, await readMotion(episode.motion)).build();

    async function show(chosen) {
      const choice = ++choices;
      for (const number of chosen) {
        if (!made.has(number)) made.set(number, make(data.episodes[number]));
      }
      const found = await Promise.all(chosen.map((number) => made.get(number)));
      if (choice !== choices) return; // something else was chosen meanwhile
      tiles = found;
      find("tiles").replaceChildren(...tiles.map((tile) => tile.element));
      duration = Math.max(0, ...tiles.map((tile) => tile.duration));
      slider.max = duration;
      seek(Math.min(clock.time, duration));
    }

    function seek(time) {
      clock.time = time;
      slider.value = time;
      // What is read out where the slider has the focus; while it moves by itself, once a second.
      slider.setAttribute("aria-valuetext", `${time.toFixed(clock.playing ? 0 : 2)} seconds`);
      find("clock").textContent = `${time.toFixed(2)} s`;
      for (const tile of tiles) tile.pose(Math.min(time, tile.duration));
      stale = true;
    }

    function setPlaying(playing) {
      if (playing && clock.time >= duration) seek(0);
      clock.playing = playing;
      play.textContent = playing ? "Pause" : "Play";
    }

    const first = data.episodes.map((_, number) => number).slice(0, Math.min(3, MAX_TILES));
    if (data.episodes.length > first.length) offerChoice(first, show);
    await show(first);
    setPlaying(clock.playing);
    play.addEventListener("click", () => setPlaying(!clock.playing));
    slider.addEventListener("input", () => { setPlaying(false); seek(Number(slider.value)); });
    for (const name of ["contacts", "follow"]) find(name).addEventListener("change", () => seek(clock.time));
    window.addEventListener("keydown", (event) => {
      if (event.code !== "Space" || event.target.closest("button, select, summary, input[type=checkbox]")) return;
      event.preventDefault();
      setPlaying(!clock.playing);
    });
    let last = null;
    requestAnimationFrame(function step(now) {
      const passed = last === null ? 0 : Math.min((now - last) / 1000, 0.25);
      last = now;
      if (clock.playing) {
        seek(Math.min(duration, clock.time + passed * Number(find("speed").value)));
        if (clock.time >= duration) setPlaying(false);
      }
      refresh();
      requestAnimationFrame(step);
    });
    window.replay = {
      get time() { return clock.time; },
      get duration() { return duration; },
      get titles() { return tiles.map((tile) => tile.episode.title); },
      pause: () => setPlaying(false),
      seek: (time) => { setPlaying(false); seek(Math.max(0, Math.min(time, duration))); },
      position: (tile, body) => tiles[tile].position(body),
      eye: (tile) => tiles[tile].camera.position.toArray(),
      center: (tile) => tiles[tile].center(),
    };
  }

  function offerChoice(first, show) {
    const list = find("choice").querySelector("ul");
    find("choice").hidden = false;
    const boxes = data.episodes.map((episode, number) => {
      const label = list.appendChild(document.createElement("li")).appendChild(document.createElement("label"));
      const box = label.appendChild(document.createElement("input"));
      box.type = "checkbox";
      box.checked = first.includes(number);
      label.append(` ${episode.title}: ${episode.total.toFixed(1)}`);
      return box;
    });
    list.addEventListener("change", async () => {
      const chosen = boxes.flatMap((box, number) => (box.checked ? [number] : []));
      for (const box of boxes) box.disabled = !box.checked && chosen.length >= MAX_TILES;
      await show(chosen);
    });
  }

  // A policy at work.

  async function live() {
    document.querySelector("label.wide").hidden = true;
    find("live").hidden = false;
    let tile = null, goal = null, playing = true;
    const send = (change) => fetch("control", {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(change),
    });
    const fill = (select, names, chosen) => select.replaceChildren(...names.map((name, number) => {
      const option = document.createElement("option");
      option.value = number;
      option.textContent = name;
      option.selected = number === chosen;
      return option;
    }));
    const whose = ({ policies, policy, body_names, body }) =>
      JSON.stringify([policies, policy, body_names, body]);
    const source = new EventSource("events");
    let waiting = Promise.resolve();
    source.addEventListener("scene", (event) => {
      const episode = JSON.parse(event.data);
      waiting = waiting.then(async () => {
        // Another server may answer at this address, with policies and bodies of its own.
        if (tile && whose(tile.episode) === whose(episode)) {
          await tile.exchange(episode);
          goal = null;
          return;
        }
        fill(find("policy"), episode.policies, episode.policy);
        fill(find("body"), episode.body_names, episode.body);
        const fresh = await new Tile(episode, null).build();
        tile?.dispose();
        fresh.isNew = true;
        tile = fresh;
        tiles = [tile];
        goal = null;
        find("tiles").replaceChildren(tile.element);
      });
    });
    const setPlaying = (value) => {
      playing = value;
      find("play").textContent = playing ? "Pause" : "Play";
    };
    const known = {};
    /** Show what is set, here or in another tab. Only what has changed: a choice that is on its way stays. */
    function showSettings(settings) {
      if (settings.playing !== known.playing) setPlaying(settings.playing);
      for (const name of ["speed", "friction"]) {
        if (settings[name] !== known[name]) find(name).value = String(settings[name]);
      }
      Object.assign(known, settings);
    }
    let latest = null;
    source.addEventListener("frame", (event) => {
      const frame = JSON.parse(event.data);
      showSettings(frame.settings);
      waiting = waiting.then(() => {
        if (!tile || tile.episode.number !== frame.number) return;
        latest = frame;
        frame.places.forEach((place, body) => tile.groups[body].position.fromArray(place));
        frame.turns.forEach(([w, x, y, z], body) => tile.groups[body].quaternion.set(x, y, z, w));
        const torso = frame.places[0];
        goal = goal ? goal.map((value, k) => value + 0.12 * (torso[k] - value)) : torso;
        show(frame);
        tile.write(frame.speed, frame.total, frame.time, frame.step);
        find("clock").textContent = `${frame.time.toFixed(2)} s`;
      });
    });
    function show(frame) {
      tile.lookAt(...goal);
      if (tile.isNew) { tile.frame(); tile.isNew = false; }
      tile.showContacts(frame.contacts.flat());
      stale = true;
    }
    // While the simulation pauses, no other frame comes.
    for (const name of ["contacts", "follow"]) {
      find(name).addEventListener("change", () => { if (goal) show(latest); });
    }
    const report = (text) => {
      find("connection").textContent = text;
      find("clock").hidden = text !== "";
    };
    source.onerror = () => report("no connection");
    source.onopen = () => report("");
    find("play").addEventListener("click", () => {
      setPlaying(!playing);
      send({ playing });
    });
    find("speed").addEventListener("change", () => send({ speed: Number(find("speed").value) }));
    find("friction").addEventListener("change", () => send({ friction: Number(find("friction").value) }));
    find("body").addEventListener("change", () => send({ body: Number(find("body").value) }));
    find("policy").addEventListener("change", () => send({ policy: Number(find("policy").value) }));
    find("restart").addEventListener("click", () => send({ restart: true }));
    for (const button of document.querySelectorAll("[data-push]")) {
      const angle = (Number(button.dataset.push) * Math.PI) / 180;
      button.addEventListener("click", () => send({ push: [PUSH * Math.cos(angle), PUSH * Math.sin(angle)] }));
    }
    requestAnimationFrame(function step() {
      refresh();
      requestAnimationFrame(step);
    });
    window.replay = {
      get ready() { return tile !== null && !tile.isNew; },
      get title() { return tile.episode.title; },
      get number() { return latest.number; },
      position: (_, body) => tile.position(body),
      eye: () => tile.camera.position.toArray(),
      get contacts() { return tile.marks.count; },
    };
  }
})();
