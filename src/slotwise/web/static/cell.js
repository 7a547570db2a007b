"use strict";
/* The map of a radio cell on a canvas: devices around the server, coloured by their mean SNR. */
{
  // From weak to strong: dark blue, grey, yellow. Of this kind of scale lightness alone tells the values apart.
  const SCALE = [[0, 32, 77], [50, 72, 109], [94, 98, 110], [124, 123, 120], [156, 148, 118], [194, 176, 105], [234, 206, 74], [255, 233, 69]];
  const MARGIN = 14, BAR = 12;

  const colour = part => {
    const least = sw.darkness.matches ? 0.25 : 0;  // the darkest would not be seen on a dark page
    const place = (least + (1 - least) * Math.max(0, Math.min(1, part))) * (SCALE.length - 1), low = Math.min(SCALE.length - 2, Math.floor(place));
    return `rgb(${SCALE[low].map((value, i) => Math.round(value + (SCALE[low + 1][i] - value) * (place - low)))})`;
  };

  /** About three round distances up to the farthest device. */
  const rings = most => {
    const power = 10 ** Math.floor(Math.log10(most / 3)), step = [1, 2, 5, 10].map(digit => digit * power).find(value => value >= most / 3.5);
    return Array.from({ length: Math.floor(most / step + 1e-9) }, (_, k) => (k + 1) * step);
  };
  const metres = value => value >= 1e4 ? sw.number(value / 1000, 3) + " km" : sw.number(value, 4) + " m";

  sw.CellMap = class {
    constructor(place, { height = 330 } = {}) {
      this.height = height;
      this.canvas = sw.el("canvas", { tabindex: "0", role: "img", "aria-label": "Map of the cell. Full stop and comma step through the devices by distance." });
      this.box = sw.el("div.chart.map", { "data-empty": "1" }, this.canvas);
      place.append(this.box);
      this.canvas.addEventListener("pointermove", event => this.point(event));
      this.canvas.addEventListener("click", event => this.point(event));
      this.canvas.addEventListener("pointerleave", () => this.pick(null));
      this.canvas.addEventListener("blur", () => this.pick(null));
      this.canvas.addEventListener("keydown", event => this.key(event));
      new ResizeObserver(() => this.draw()).observe(this.box);
      sw.redraws.add(() => this.draw());
    }

    /** Show a cell as the server describes it; `seconds` are those of a slot, if known. */
    show(cell, seconds) {
      Object.assign(this, { cell, seconds, picked: null });
      delete this.box.dataset.empty;
      this.far = cell.distance_m.reduce((a, b) => Math.max(a, b));
      this.order = [...cell.distance_m.keys()].sort((a, b) => cell.distance_m[a] - cell.distance_m[b]);
      this.low = cell.snr_db.reduce((a, b) => Math.min(a, b));
      this.high = Math.max(cell.snr_db.reduce((a, b) => Math.max(a, b)), this.low + 1e-9);
      this.draw();
    }

    /** Draw in the next frame, once however often it is asked for. */
    draw() {
      if (this.drawing || !this.cell || !this.box.clientWidth) return;
      this.drawing = requestAnimationFrame(() => { this.drawing = null; this.drawNow(); });
    }

    colourOf(i) { return colour((this.cell.snr_db[i] - this.low) / (this.high - this.low)); }

    drawNow() {
      const width = this.box.clientWidth, { height } = this, ratio = window.devicePixelRatio || 1, pen = this.canvas.getContext("2d");
      sw.set(this.canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
      this.canvas.style.cssText = `width:${width}px;height:${height}px`;
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      this.radius = Math.min(height, width - 84) / 2 - MARGIN;
      this.middle = [(width - 84) / 2, height / 2];
      const { distance_m: distance, angle } = this.cell, scale = this.radius / this.far;
      this.places = distance.map((value, i) => [this.middle[0] + scale * value * Math.cos(angle[i]), this.middle[1] - scale * value * Math.sin(angle[i])]);
      this.dot = Math.max(1.6, Math.min(6, 60 / Math.sqrt(distance.length)));
      pen.font = "11px system-ui, sans-serif";
      this.drawRings(pen, scale);
      pen.lineWidth = 0.8;
      pen.strokeStyle = sw.css("outline");
      this.places.forEach(([x, y], i) => {
        pen.beginPath();
        pen.arc(x, y, this.dot, 0, 7);
        pen.fillStyle = this.colourOf(i);
        pen.fill();
        if (this.dot > 2.5) pen.stroke();
      });
      this.drawLabels(pen, scale);
      this.drawServer(pen);
      this.drawScale(pen, width - 62, height);
      if (this.picked !== null) this.drawPicked(pen);
    }

    drawRings(pen, scale) {
      pen.strokeStyle = sw.css("ring");
      for (const value of rings(this.far)) {
        pen.beginPath();
        pen.arc(...this.middle, value * scale, 0, 7);
        pen.stroke();
      }
    }

    /** Distances on their rings, each where the dots leave most room. */
    drawLabels(pen, scale) {
      pen.textAlign = "center";
      pen.textBaseline = "middle";
      for (const value of rings(this.far)) {
        const text = metres(value), half = pen.measureText(text).width / 2 + 3, [x, y] = this.freePlace(value * scale, half);
        pen.globalAlpha = 0.85;
        pen.fillStyle = sw.css("card");
        pen.fillRect(x - half, y - 7, 2 * half, 14);
        pen.globalAlpha = 1;
        pen.fillStyle = sw.css("quiet");
        pen.fillText(text, x, y);
      }
    }

    /** The place on a ring around which a label of a width has the fewest dots; the first from the top. */
    freePlace(radius, half) {
      const covered = ([x, y]) => this.places.filter(([a, b]) => Math.abs(a - x) < half + this.dot && Math.abs(b - y) < 7 + this.dot).length;
      const places = Array.from({ length: 36 }, (_, k) => Math.PI / 2 + k * Math.PI / 18).map(angle => [this.middle[0] + radius * Math.cos(angle), Math.max(8, this.middle[1] - radius * Math.sin(angle))]);
      return places.reduce((best, place) => covered(place) < covered(best) ? place : best);
    }

    drawServer(pen) {
      const [x, y] = this.middle;
      pen.beginPath();
      pen.moveTo(x, y - 9);
      pen.lineTo(x + 8, y + 6);
      pen.lineTo(x - 8, y + 6);
      pen.closePath();
      pen.fillStyle = sw.css("mast");
      pen.strokeStyle = sw.css("card");
      pen.lineWidth = 2;
      pen.stroke();
      pen.fill();
    }

    /** The colours and their SNRs, at the right. */
    drawScale(pen, left, height) {
      const top = 34, bottom = height - 14, at = value => bottom - (bottom - top) * (value - this.low) / (this.high - this.low);
      for (let y = top; y < bottom; y++) {
        pen.fillStyle = colour((bottom - y) / (bottom - top));
        pen.fillRect(left, y, BAR, 1.5);
      }
      pen.fillStyle = sw.css("quiet");
      pen.textAlign = "left";
      pen.fillText("mean SNR", left - 12, 8);
      pen.fillText("(dB)", left - 12, 21);
      const span = this.high - this.low, step = span > 1 ? [1, 2, 5, 10, 20, 50].find(value => span / value <= 6) || 100 : 0;
      const values = step ? Array.from({ length: 400 }, (_, k) => (Math.ceil(this.low / step) + k) * step).filter(value => value <= this.high) : [this.low];
      for (const value of values) {
        pen.fillRect(left + BAR, at(value) - 0.5, 4, 1);
        pen.fillText(sw.number(value, 3), left + BAR + 7, at(value));
      }
    }

    drawPicked(pen) {
      pen.beginPath();
      pen.arc(...this.places[this.picked], this.dot + 3, 0, 7);
      pen.strokeStyle = sw.css("text");
      pen.lineWidth = 2;
      pen.stroke();
    }

    /** What is known of the device at a place of the list. */
    describe(i) {
      const { distance_m, snr_db, arrived, lost, mean_slots } = this.cell, slots = mean_slots[i];
      const words = [`device ${i + 1}, ${metres(distance_m[i])} from the server`, `mean SNR ${sw.number(snr_db[i], 3)} dB`];
      words.push(`${sw.amount(arrived[i], "uplink")} arrived${lost[i] ? `, ${sw.whole(lost[i])} lost` : ""}`);
      if (slots !== null) words.push(`an uplink took ${sw.number(slots, 3)} slots${this.seconds ? `, ${sw.duration(slots * this.seconds, 3)}` : ""} on average`);
      return words.join("\n");
    }

    pick(i, x = 0, y = 0) {
      sw.hint(i === null || i === undefined ? "" : this.describe(i), x, y);
      if (this.picked === i) return;
      this.picked = i;
      this.draw();
    }

    point(event) {
      if (!this.places) return;
      const box = this.canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
      const away = ([a, b]) => (a - x) ** 2 + (b - y) ** 2;
      let nearest = null;
      this.places.forEach((place, i) => { if (away(place) < (this.dot + 6) ** 2 && (nearest === null || away(place) < away(this.places[nearest]))) nearest = i; });
      this.pick(nearest, event.clientX, event.clientY);
    }

    /** Step through the devices, the nearest first, and read them out. */
    key(event) {
      const by = { ".": 1, ",": -1 }[event.key];
      if (!by || !this.places) return;
      event.preventDefault();
      const now = this.picked === null ? -1 : this.order.indexOf(this.picked);
      const i = this.order[Math.max(0, Math.min(this.order.length - 1, now + by))], box = this.canvas.getBoundingClientRect();
      this.pick(i, box.left + this.places[i][0], box.top + this.places[i][1]);
      sw.say(this.describe(i));
    }
  };
}
