"use strict";
/*
 * The Gantt chart on a canvas: the channel and every device, slot by slot. The element scrolls natively, so touch,
 * wheel, scroll bars and arrow keys pan; only the visible part is drawn, and asked for.
 */
{
  const SIDE = 60, AXIS = 19, CHANNEL = 30;
  const WIDEST = 8e6;  // pixels that a browser can scroll
  const SENDING = () => sw.activity["sending"].kind, LOST = () => sw.activity["lost"].kind;
  const AWAY = () => sw.activity["away"].kind, COMPUTING = () => sw.activity["computing"].kind;
  const RECEIVING = () => sw.activity["receiving"].kind;
  const BEYOND = -1, UNSENT = -2;

  /** Slots as a text, with their time if the length of a slot is known. */
  const span = (start, end, seconds) => {
    const slots = end - start === 1 ? `slot ${sw.whole(start)}` : `slots ${sw.whole(start)}–${sw.whole(end - 1)}`;
    return seconds ? `${slots}, for ${sw.duration(seconds * (end - start))} from ${sw.duration(seconds * start)}` : slots;
  };

  /** Describe a bar of a device as lines of text. */
  const describe = (bar, seconds) => {
    const look = Object.values(sw.activity).find(known => known.kind === bar.kind);
    const lines = [`device ${bar.device}: ${look.title}`, span(bar.start, bar.end, seconds)];
    const sent = bar.kind === SENDING() || bar.kind === LOST();
    if (bar.kind === RECEIVING()) lines.push(`model w${bar.version}`);
    else if (bar.kind !== AWAY()) lines.push(bar.version === BEYOND ? "model: a later one" : `model w${bar.version}`);
    if (sent || (bar.kind === COMPUTING() && bar.round >= 0)) lines.push(`${sent ? "" : "sent in "}round ${bar.round}, staleness ${bar.round - bar.version}`);
    if (bar.kind === COMPUTING() && bar.round === UNSENT) lines.push("never sent: the device leaves");
    if (bar.kind === COMPUTING() && bar.round === BEYOND) lines.push("sent after the last round");
    return lines.join("\n");
  };

  const describeTransfer = (bar, seconds) => bar.device === 0
    ? `broadcast of model w${bar.version}\n${span(bar.start, bar.end, seconds)}\nends round ${bar.round}`
    : describe(bar, seconds);

  const row = (columns, i) => ({
    device: columns.device[i], kind: columns.kind[i], start: columns.start[i], end: columns.end[i],
    version: columns.version[i], round: columns.round[i],
  });

  sw.Gantt = class {
    /** `source(wanted)` of `show` resolves to a part of the chart: its slots from, to and devices first_device to last_device. */
    constructor(place, { height = 560 } = {}) {
      this.tallest = height;
      this.place = sw.el("div.chart", { "data-empty": "1" });
      this.canvas = sw.el("canvas");
      this.space = sw.el("div", {}, this.canvas);
      this.box = sw.el("div.gantt", { tabindex: "0", role: "region", "aria-label": "Gantt chart. Arrow keys scroll, plus and minus zoom, full stop and comma step through uplinks." }, this.space);
      this.legend = sw.el("ul.legend");
      this.place.append(this.box);
      place.append(this.place, this.legend);
      this.part = null;
      this.zoomed = null;  // pixels of a slot, once chosen
      this.picked = null;
      this.fetch = sw.latest(this.load.bind(this));
      this.box.addEventListener("scroll", () => this.scrolled());
      this.box.addEventListener("pointermove", event => this.move(event));
      this.box.addEventListener("pointerleave", () => this.leave());
      this.box.addEventListener("click", event => this.point(event));
      this.box.addEventListener("pointerdown", event => this.grab(event));
      this.box.addEventListener("wheel", event => this.wheel(event), { passive: false });
      this.box.addEventListener("keydown", event => this.key(event));
      new ResizeObserver(() => this.layout()).observe(place);
      sw.redraws.add(() => { this.drawLegend(); this.draw(); });
    }

    /** Show another timeline; `part` are its first slots, if they are there already, `seconds` those of a slot if known. */
    show(frame, source, part = null, seconds = null) {
      this.frame = frame;
      this.seconds = seconds;
      this.source = source;
      this.part = part;
      this.picked = null;
      delete this.place.dataset.empty;
      this.layout();
      this.drawLegend();
    }

    /** Pixels of a slot, from the room that there is. */
    fittingSlot() {
      const fit = this.room / this.frame.first;
      return Math.min(this.zoomed ?? Math.min(fit, 60), WIDEST / this.frame.last, 80);
    }

    get head() { return (this.seconds ? 3 : 2) * AXIS; }  // the rows above the channel: slots, times, rounds
    get most() { return this.tallest + (this.seconds ? AXIS : 0); }  // pixels of height
    get top() { return this.head + CHANNEL + 6; }
    get room() { return Math.max(80, this.box.clientWidth - SIDE - 2); }

    layout() {
      if (!this.frame || !this.box.clientWidth) return;
      const { devices, last } = this.frame;
      this.slot = this.fittingSlot();
      this.row = Math.max(5, Math.min(24, Math.floor((this.most - this.top - 18) / devices)));
      const whole = this.top + devices * this.row + 3;
      const bar = this.slot * (last - this.origin) > this.room + 1 ? 12 : 0;  // a scroll bar takes some room
      this.box.style.height = Math.min(whole + bar, this.most) + 2 + "px";
      this.space.style.width = SIDE + this.slot * (last - this.origin) + "px";
      this.space.style.height = whole + "px";
      this.slot = this.fittingSlot();  // a scroll bar may have come or gone
      this.space.style.width = SIDE + this.slot * (last - this.origin) + "px";
      this.width = this.box.clientWidth;
      this.height = Math.min(this.box.clientHeight, whole);
      const ratio = window.devicePixelRatio || 1;
      this.canvas.width = Math.round(this.width * ratio);
      this.canvas.height = Math.round(this.height * ratio);
      this.canvas.style.width = this.width + "px";
      this.canvas.style.height = this.height + "px";
      this.scrolled();
    }

    /** The visible slots and devices. */
    get seen() {
      const first = this.origin + this.left / this.slot, end = this.origin + (this.left + this.width - SIDE) / this.slot;
      const low = Math.floor(this.above / this.row) + 1;
      const high = Math.ceil((this.above + this.height - this.top) / this.row);
      return { first: Math.max(this.origin, Math.floor(first)), end: Math.min(this.frame.last, Math.ceil(end)),
        low: Math.max(1, low), high: Math.min(this.frame.devices, high) };
    }

    scrolled() {
      if (!this.frame || !this.width) return;
      // Read once, and not for every bar: the browser would lay out the page anew.
      this.left = this.box.scrollLeft;
      this.above = this.box.scrollTop;
      const { first, end, low, high } = this.seen, part = this.part;
      const has = part && part.slots[0] <= first && part.slots[1] >= end && part.devices[0] <= low && part.devices[1] > high;
      if (!has) this.fetch();
      this.draw();
    }

    /** The part to ask for: what is visible, and as much on every side. */
    get wanted() {
      if (!this.frame || !this.width) return { from: 0, to: 400, first_device: 1, last_device: 200 };
      const { first, end, low, high } = this.seen, beside = Math.max(20, end - first), above = Math.max(20, high - low);
      return { from: Math.max(0, first - beside), to: end + beside, first_device: Math.max(1, low - above), last_device: high + above };
    }

    async load() {
      const source = this.source;
      try {
        const part = await sw.computing([this.place], source(this.wanted));
        if (source !== this.source) return;
        this.part = part;
        this.draw();
        this.drawLegend();
      } catch (error) { if (error.name !== "AbortError") sw.trouble(error.message); }
    }

    /** Zoom by a factor around a place in the box. */
    zoom(factor, at = SIDE + this.room / 2) {
      if (!this.frame) return;
      const slot = (this.box.scrollLeft + at - SIDE) / this.slot;
      const least = Math.min(this.room / this.frame.last, this.room / this.frame.first);
      this.zoomed = Math.max(least, Math.min(80, this.slot * factor));
      this.layout();
      this.box.scrollLeft = slot * this.slot + SIDE - at;
      this.scrolled();
    }

    fit() {
      this.zoomed = null;
      this.layout();
      this.box.scrollTo(0, 0);
    }

    /** Draw in the next frame, once however often it is asked for. */
    draw() {
      if (this.drawing || !this.frame || !this.width) return;
      this.drawing = requestAnimationFrame(() => {
        this.drawing = null;
        this.drawNow();
      });
    }

    drawNow() {
      const pen = this.canvas.getContext("2d"), ratio = window.devicePixelRatio || 1;
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      const paper = sw.css("card"), text = sw.css("text"), quiet = sw.css("quiet");
      pen.fillStyle = paper;
      pen.fillRect(0, 0, this.width, this.height);
      pen.textBaseline = "middle";
      if (this.part) {
        pen.save();
        pen.beginPath();
        pen.rect(SIDE, this.top, this.width - SIDE, this.height - this.top);
        pen.clip();
        this.drawBars(pen);
        this.drawRounds(pen, this.top, this.height);
        pen.restore();
        pen.save();
        pen.beginPath();
        pen.rect(SIDE, 0, this.width - SIDE, this.top);
        pen.clip();
        this.drawChannel(pen, paper);
        pen.restore();
      }
      this.drawAxis(pen, text, quiet);
      this.drawNumbers(pen, quiet);
    }

    /** Left and right end of a bar. Narrow bars begin and end on whole pixels: neighbours would be striped otherwise. */
    ends(start, end) {
      const left = this.x(start), right = this.x(Math.min(end, this.frame.last));
      if (this.slot >= 5) return [left, right - 0.8];
      return [Math.floor(left), Math.max(Math.floor(left) + 1, Math.floor(right))];
    }

    x(slot) { return SIDE + (slot - this.origin) * this.slot - this.left; }
    get origin() { return this.frame.from || 0; }  // the first slot of the chart
    y(device) { return this.top + (device - 1) * this.row - this.above; }

    drawBars(pen) {
      const { device, kind, start, end, version } = this.part.bars, { first, end: stop, low, high } = this.seen;
      const gap = this.row >= 9 ? 1.5 : this.row >= 7 ? 1 : 0.6, full = this.row - gap;
      pen.font = `${Math.min(11, this.row * 0.72)}px system-ui, sans-serif`;
      pen.textAlign = "center";
      for (let i = 0; i < device.length; i++) {
        if (device[i] < low || device[i] > high || end[i] <= first || start[i] >= stop) continue;
        const look = sw.activity[kind[i]], height = full * look.thickness;
        const ends = this.ends(start[i], end[i]), left = Math.max(SIDE, ends[0]), right = Math.min(this.width, ends[1]);
        pen.fillStyle = sw.tone(look.colours);
        pen.globalAlpha = look.thickness < 0.5 && this.row < 9 ? 0.55 : 1;  // many thin lines would be too loud
        pen.fillRect(left, this.y(device[i]) + (full - height) / 2 + gap / 2, right - left, height);
        if (kind[i] === sw.activity["computing"].kind && this.row >= 12 && right - left > 24) {
          pen.fillStyle = sw.tone(look.inks);
          pen.fillText("w" + version[i], (left + right) / 2, this.y(device[i]) + this.row / 2);
        }
      }
      pen.globalAlpha = 1;
      if (this.picked) this.outline(pen);
    }

    /** Outline the training of the picked bar, from its model to its uplink. */
    outline(pen) {
      const { device, kind, start, end, version } = this.part.bars;
      pen.strokeStyle = sw.css("text");
      pen.lineWidth = 1.5;
      for (let i = 0; i < device.length; i++) {
        if (device[i] !== this.picked.device || version[i] !== this.picked.version) continue;
        if (kind[i] === sw.activity["waiting-for-model"].kind || kind[i] === AWAY()) continue;
        pen.strokeRect(this.x(start[i]), this.y(device[i]) + 0.5, this.x(end[i]) - this.x(start[i]), this.row - 1);
      }
    }

    drawChannel(pen, paper) {
      const { device, kind, start, end, version } = this.part.channel;
      const top = this.head;
      pen.fillStyle = sw.css("free");
      pen.fillRect(SIDE, top, Math.min(this.width - SIDE, this.x(this.frame.last) - SIDE), CHANNEL);
      pen.textAlign = "center";
      const lanes = this.part.lanes || 1, lane = CHANNEL / lanes, labelled = this.labelled();
      for (let i = 0; i < device.length; i++) {
        const [left, right] = this.ends(start[i], end[i]), wide = right - left;
        if (left > this.width || right < SIDE) continue;
        const look = sw.activity[kind[i]], on = this.part.lane[i], whole = on < 0;
        const all = whole ? CHANNEL : lane, height = all * look.thickness;
        pen.fillStyle = sw.tone(look.colours);
        const y = top + (whole ? 0 : on * lane) + (all - height) / 2;
        pen.fillRect(left, y, wide, height - (lanes > 1 ? 0.6 : 0));
        const label = device[i] === 0 ? "w" + version[i] : String(device[i]);
        if ((device[i] === 0 || labelled) && wide > label.length * 7 + 2 && height >= 11) {
          pen.font = "11px system-ui, sans-serif";
          pen.fillStyle = sw.tone(look.inks);
          pen.fillText(label, left + wide / 2, y + height / 2 + 0.5);
        }
      }
      this.drawRounds(pen, this.head - AXIS + 3, this.head);
      const [numbers, starts] = this.part.rounds;
      pen.fillStyle = sw.css("quiet");
      pen.font = "11px system-ui, sans-serif";
      pen.textAlign = "left";
      let free = SIDE;
      for (let i = 0; i < starts.length; i++) {
        const left = this.x(starts[i]), label = String(numbers[i]);
        if (left < free || left + 3 + label.length * 6.6 > this.width) continue;
        pen.fillText(label, left + 3, this.head - AXIS / 2 + 1);
        free = left + label.length * 6.6 + 10;
      }
    }

    /** Whether the numbers of all senders in sight fit their uplinks: numbers on some of them only would puzzle. */
    labelled() {
      const { device, start, end } = this.part.channel, { first, end: stop } = this.seen;
      for (let i = 0; i < device.length; i++)
        if (device[i] && end[i] > first && start[i] < stop && (end[i] - start[i]) * this.slot <= String(device[i]).length * 7 + 3) return false;
      return true;
    }

    drawRounds(pen, top, bottom) {
      const starts = this.part.rounds[1];
      if (starts.length > 1 && (starts[1] - starts[0]) * this.slot < 6) return;
      pen.fillStyle = sw.css("line");
      for (const slot of starts) if (slot) pen.fillRect(Math.round(this.x(slot)) - 0.5, top, 1, bottom - top);
    }

    /** Draw ticks of an axis: `slots` is one of its units in slots, `least` the smallest step between ticks. */
    drawTicks(pen, top, slots, least, label) {
      const { first, end } = this.seen, rough = 70 / (this.slot * slots), power = 10 ** Math.floor(Math.log10(rough));
      const step = Math.max(least, [1, 2, 5, 10].map(digit => digit * power).find(value => value >= rough));
      for (let k = Math.ceil(first / slots / step - 1e-9); k * step * slots <= end; k++) {
        const place = this.x(k * step * slots), text = label(k * step || 0);
        if (place < SIDE - 1 || place + 4 + text.length * 7 > this.width) continue;
        pen.fillRect(place, top + 4, 1, AXIS - 7);
        pen.fillText(text, place + 4, top + AXIS / 2 + 1);
      }
    }

    drawAxis(pen, text, quiet) {
      pen.fillStyle = quiet;
      pen.font = "11px system-ui, sans-serif";
      pen.textAlign = "left";
      this.drawTicks(pen, 0, 1, 1, slot => slot.toLocaleString("en-US"));
      // Milliseconds, unless ticks are seconds apart or their numbers would be long.
      const isShort = this.seconds && this.seen.end * this.seconds < 10 && 70 / this.slot * this.seconds < 0.5;
      const unit = isShort ? ["ms", 1000] : ["s", 1];
      if (this.seconds) this.drawTicks(pen, AXIS, 1 / (unit[1] * this.seconds), 0, value => sw.number(value, 6));
      pen.fillStyle = sw.css("card");
      pen.fillRect(0, 0, SIDE, this.top);
      pen.fillStyle = quiet;
      pen.textAlign = "right";
      pen.fillText("slot", SIDE - 7, AXIS / 2 + 1);
      if (this.seconds) pen.fillText(unit[0], SIDE - 7, AXIS * 1.5 + 1);
      pen.fillText("round", SIDE - 7, this.head - AXIS / 2 + 1);
      pen.fillStyle = text;
      pen.fillText("channel", SIDE - 7, this.head + CHANNEL / 2 + 1);
    }

    drawNumbers(pen, quiet) {
      pen.fillStyle = sw.css("card");
      pen.fillRect(0, this.top, SIDE, this.height);
      pen.save();
      pen.beginPath();
      pen.rect(0, this.top - 2, SIDE, this.height);
      pen.clip();
      pen.fillStyle = quiet;
      pen.textAlign = "right";
      pen.font = "10.5px system-ui, sans-serif";
      const { low, high } = this.seen;
      const step = [1, 2, 5, 10, 20].find(value => value * this.row >= 13) || 20;
      for (let device = low; device <= high; device++)
        if (device % step === 0 || device === 1 || step === 1) pen.fillText(device.toLocaleString("en-US"), SIDE - 7, this.y(device) + this.row / 2);
      pen.restore();
    }

    drawLegend() {
      const known = new Set(this.part ? this.part.bars.kind : []);
      const looks = (sw.boot.activities || []).filter(look => !look.rare || known.has(look.kind));
      this.legend.replaceChildren(...looks.map(look => {
        const style = `height:${Math.max(2, 12 * look.thickness)}px;background:${sw.tone(look.colours)}`;
        return sw.el("li", {}, sw.el("i", { style }), look.title);
      }));
    }

    /** Return the bar at a place of the screen. */
    at(event) {
      if (!this.part) return null;
      const box = this.canvas.getBoundingClientRect(), left = event.clientX - box.left, top = event.clientY - box.top;
      if (left < SIDE || left > this.width || top > this.height) return null;
      const slot = this.origin + (left - SIDE + this.box.scrollLeft) / this.slot;
      const find = (columns, device) => {
        for (let i = 0; i < columns.start.length; i++)
          if (columns.start[i] <= slot && slot < columns.end[i] && columns.device[i] === device) return row(columns, i);
        return null;
      };
      if (top >= this.head && top < this.head + CHANNEL) {
        const { start, end } = this.part.channel, lane = Math.floor((top - this.head) / CHANNEL * this.part.lanes);
        for (let i = 0; i < start.length; i++)
          if (start[i] <= slot && slot < end[i] && (this.part.lane[i] < 0 || this.part.lane[i] === lane)) return { ...row(this.part.channel, i), transfer: true };
        return null;
      }
      if (top < this.top) return null;
      return find(this.part.bars, Math.floor((top - this.top + this.box.scrollTop) / this.row) + 1);
    }

    move(event) {
      if (this.dragging) {
        this.box.scrollLeft = this.dragging.left - (event.clientX - this.dragging.x);
        this.box.scrollTop = this.dragging.top - (event.clientY - this.dragging.y);
        this.dragging.moved ||= Math.abs(event.clientX - this.dragging.x) + Math.abs(event.clientY - this.dragging.y) > 4;
        return;
      }
      this.point(event);
    }

    point(event) {
      const bar = this.at(event);
      this.pick(bar);
      sw.hint(bar ? (bar.transfer ? describeTransfer : describe)(bar, this.seconds) : "", event.clientX, event.clientY);
    }

    pick(bar) {
      const before = this.picked;
      this.picked = bar && bar.device > 0 && bar.version >= 0 ? bar : null;
      if (before !== this.picked) this.draw();
    }

    leave() {
      sw.hint("");
      this.pick(null);
    }

    grab(event) {
      if (event.pointerType !== "mouse" || event.button !== 0 || event.offsetX > this.width) return;
      this.dragging = { x: event.clientX, y: event.clientY, left: this.box.scrollLeft, top: this.box.scrollTop };
      this.box.classList.add("dragging");
      addEventListener("pointerup", () => { this.dragging = null; this.box.classList.remove("dragging"); }, { once: true });
    }

    wheel(event) {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? 1.25 : 0.8, event.clientX - this.box.getBoundingClientRect().left);
    }

    key(event) {
      if (event.key === "+" || event.key === "=") this.zoom(1.5);
      else if (event.key === "-") this.zoom(1 / 1.5);
      else if (event.key === "0") this.fit();
      else if (event.key === "." || event.key === ",") this.step(event.key === "." ? 1 : -1);
      else return;
      event.preventDefault();
    }

    /** Go to the next or previous uplink on the channel, and read it out. */
    step(by) {
      if (!this.part) return;
      const columns = this.part.channel;
      const order = [...columns.start.keys()].filter(i => columns.device[i] > 0).sort((a, b) => columns.start[a] - columns.start[b]);
      if (!order.length) return;
      const now = this.stepped === undefined ? (by > 0 ? -1 : 0) : order.findIndex(i => columns.start[i] === this.stepped);
      const found = row(columns, order[Math.max(0, Math.min(order.length - 1, now + by))]);
      this.stepped = found.start;
      const place = (found.start - this.origin) * this.slot;
      if (place < this.box.scrollLeft || place > this.box.scrollLeft + this.room) this.box.scrollLeft = place - this.room / 2;
      this.pick(found);
      const box = this.box.getBoundingClientRect();
      const text = describeTransfer(found, this.seconds);
      sw.hint(text, box.left + this.x(found.start), box.top + this.head + CHANNEL);
      sw.say(text);
    }

    /** Buttons for zooming. */
    buttons() {
      return [
        sw.el("button", { type: "button", title: "Zoom out", "aria-label": "Zoom out", onclick: () => this.zoom(1 / 1.6) }, "−"),
        sw.el("button", { type: "button", title: "Zoom in", "aria-label": "Zoom in", onclick: () => this.zoom(1.6) }, "+"),
        sw.el("button", { type: "button", title: "Back to the first slots", onclick: () => this.fit() }, "Reset"),
      ];
    }
  };
}
