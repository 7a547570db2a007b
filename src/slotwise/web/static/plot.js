"use strict";
/* A line chart as SVG: linear or logarithmic axes, bands, marks, a reading at the pointer, and a legend. */
{
  const MARGIN = { left: 62, right: 14, top: 10, bottom: 38 };

  const niceStep = (span, count) => {
    const rough = span / Math.max(1, count), power = 10 ** Math.floor(Math.log10(rough));
    return [1, 2, 5, 10].map(digit => digit * power).find(step => step >= rough) || power;
  };

  const ticks = (low, high, log, count) => {
    const found = [];
    if (log) {
      const decades = Math.log10(high / low), digits = decades > 3 ? [1] : decades > 1 ? [1, 2, 5] : [1, 2, 3, 4, 5, 6, 7, 8, 9];
      for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++)
        for (const digit of digits) found.push(digit * 10 ** power);
    } else {
      const step = niceStep(high - low || 1, count);
      for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(k * step || 0);
    }
    return found.filter(value => value >= low * (log ? 0.999 : 1) - 1e-12 && value <= high * (log ? 1.001 : 1) + 1e-12);
  };

  const short = value => {
    const size = Math.abs(value);
    if (size >= 1e6) return sw.number(value / 1e6, 3) + " M";
    if (size >= 1e4) return sw.number(value / 1e3, 3) + " k";
    return sw.number(value, 3);
  };

  /**
   * A plot in `place`. `draw({lines, x, y, marks, dots})` draws it anew:
   * lines: [{label, colours, dash, points: [[x, y]], band: [[x, low, high]]}]; x, y: {name, log, low, high};
   * marks: [{x, label}]; dots: [{x, y, colours, r, title}]. With `onpick`, pressing and dragging picks an x.
   */
  sw.Plot = class {
    constructor(place, { height = 220, onpick = null, legend = true, name = "chart" } = {}) {
      this.height = height;
      this.onpick = onpick;
      this.hidden = new Set();
      this.svg = sw.svg("svg", { role: "img", "aria-label": name });
      this.box = sw.el("div.plot" + (onpick ? ".pick" : ""), { "data-empty": "1" }, this.svg);
      this.legend = legend ? sw.el("ul.legend") : null;
      place.append(this.box, ...(legend ? [this.legend] : []));
      this.content = null;
      new ResizeObserver(() => this.redraw()).observe(this.box);
      sw.redraws.add(() => this.redraw());
      this.svg.addEventListener("pointermove", event => this.read(event));
      this.svg.addEventListener("pointerleave", () => { sw.hint(""); if (this.cross) this.cross.setAttribute("visibility", "hidden"); });
      this.svg.addEventListener("pointerdown", event => {
        if (!onpick) return;
        this.svg.setPointerCapture(event.pointerId);
        this.picking = true;
        this.read(event);
      });
      this.svg.addEventListener("pointerup", () => { this.picking = false; });
    }

    draw(content) {
      this.content = content;
      delete this.box.dataset.empty;
      this.redraw();
    }

    get shown() { return this.content.lines.filter(line => !this.hidden.has(line.label)); }

    extent() {
      const { x, y, marks = [], dots = [] } = this.content;
      const xs = [], ys = [];
      for (const line of this.shown) {
        for (const [a, b] of line.points) { xs.push(a); if (b !== null) ys.push(b); }
        for (const [, low, high] of line.band || []) if (low !== null) ys.push(low, high);
      }
      for (const mark of marks) xs.push(mark.x);
      for (const dot of dots) { xs.push(dot.x); ys.push(dot.y); }
      const least = list => list.reduce((a, b) => Math.min(a, b), Infinity);
      const most = list => list.reduce((a, b) => Math.max(a, b), -Infinity);
      const range = (axis, values) => {
        const fit = axis.log ? values.filter(value => value > 0) : values;
        let low = axis.low ?? least(fit), high = axis.high ?? most(fit);
        if (!isFinite(low) || !isFinite(high)) [low, high] = axis.log ? [1, 10] : [0, 1];
        if (low === high) [low, high] = axis.log ? [low / 2, high * 2] : [Math.min(0, low), high || 1];
        return [low, high];
      };
      return [range(x, xs), range(y, ys)];
    }

    /** Draw in the next frame, once however often it is asked for. */
    redraw() {
      if (this.drawing || !this.content) return;
      this.drawing = requestAnimationFrame(() => {
        this.drawing = null;
        this.drawNow();
      });
    }

    drawNow() {
      const { x, y, marks = [], dots = [], lines } = this.content;
      const width = Math.max(160, this.box.clientWidth), height = this.height;
      const [[x0, x1], [y0, y1]] = this.extent();
      const right = width - MARGIN.right, bottom = height - MARGIN.bottom;
      const scale = (log, low, high, from, to) => value =>
        from + (to - from) * (log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low));
      const px = scale(x.log, x0, x1, MARGIN.left, right), py = scale(y.log, y0, y1 + (y.log ? 0 : (y1 - y0) * 0.04), bottom, MARGIN.top);
      this.px = px;
      this.unpx = place => {
        const part = Math.min(1, Math.max(0, (place - MARGIN.left) / (right - MARGIN.left)));
        return x.log ? x0 * (x1 / x0) ** part : x0 + (x1 - x0) * part;
      };
      this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      this.svg.setAttribute("height", height);
      const parts = [];
      let last = -Infinity;
      for (const value of ticks(y0, y1, y.log, 5)) {
        const place = py(value);
        parts.push(sw.svg("line", { class: "grid", x1: MARGIN.left, x2: right, y1: place, y2: place }));
        if (Math.abs(place - last) < 15) continue;
        last = place;
        parts.push(sw.svg("text", { class: "tick", x: MARGIN.left - 7, y: place + 4, "text-anchor": "end" }, short(value)));
      }
      let free = -Infinity;
      for (const value of ticks(x0, x1, x.log, Math.max(2, width / 90))) {
        const place = px(value), label = short(value), half = label.length * 3.6;
        parts.push(sw.svg("line", { class: "axis", x1: place, x2: place, y1: bottom, y2: bottom + 4 }));
        const middle = Math.min(place, width - half);
        if (middle - half < free) continue;
        free = middle + half + 8;
        parts.push(sw.svg("text", { class: "tick", x: middle, y: bottom + 16, "text-anchor": "middle" }, label));
      }
      parts.push(sw.svg("line", { class: "axis", x1: MARGIN.left, x2: right, y1: bottom, y2: bottom }));
      parts.push(sw.svg("text", { class: "name", x: (MARGIN.left + right) / 2, y: height - 4, "text-anchor": "middle" }, x.name));
      const middle = (MARGIN.top + bottom) / 2;
      parts.push(sw.svg("text", { class: "name", "text-anchor": "middle", transform: `translate(12 ${middle}) rotate(-90)` }, y.name));
      const inside = value => value !== null && (!y.log || value > 0);
      for (const line of this.shown) {
        const tone = sw.tone(line.colours);
        const band = (line.band || []).filter(([, low]) => inside(low));
        if (band.length > 1) {
          const there = band.map(([a, low]) => `${px(a).toFixed(1)},${py(low).toFixed(1)}`);
          const back = band.map(([a, , high]) => `${px(a).toFixed(1)},${py(high).toFixed(1)}`).reverse();
          parts.push(sw.svg("polygon", { points: [...there, ...back].join(" "), fill: tone, opacity: 0.18 }));
        }
        const path = line.points.filter(([a, b]) => inside(b) && (!x.log || a > 0))
          .map(([a, b]) => `${px(a).toFixed(1)},${py(b).toFixed(1)}`);
        parts.push(sw.svg("polyline", { points: path.join(" "), fill: "none", stroke: tone, "stroke-width": line.width || 2,
          "stroke-linejoin": "round", "stroke-dasharray": line.dash || undefined, "data-label": line.label }));
        if (line.points.length === 1 && path.length) {
          const [cx, cy] = path[0].split(",");
          parts.push(sw.svg("circle", { cx, cy, r: 3, fill: tone }));
        }
      }
      for (const mark of marks) {
        const place = px(mark.x), end = place > right - 60;
        parts.push(sw.svg("line", { class: "mark", x1: place, x2: place, y1: MARGIN.top, y2: bottom }));
        parts.push(sw.svg("text", { class: "tick", x: place + (end ? -5 : 5), y: MARGIN.top + 9, "text-anchor": end ? "end" : "start" }, mark.label));
      }
      for (const dot of dots)
        if (inside(dot.y)) parts.push(sw.svg("circle", { cx: px(dot.x), cy: py(dot.y), r: dot.r || 4.5, fill: sw.tone(dot.colours), stroke: dot.r ? "var(--outline)" : "var(--card)", "stroke-width": dot.r ? 0.8 : 1.5 },
          ...(dot.title ? [sw.svg("title", {}, dot.title)] : [])));
      this.cross = sw.svg("line", { class: "cross", y1: MARGIN.top, y2: bottom, visibility: "hidden" });
      this.svg.replaceChildren(...parts, this.cross);
      this.drawLegend(lines);
    }

    drawLegend(lines) {
      if (!this.legend) return;
      this.legend.replaceChildren(...lines.map(line => {
        const style = `height:3px;background:${line.dash ? `repeating-linear-gradient(90deg, ${sw.tone(line.colours)} 0 5px, transparent 5px 8px)` : sw.tone(line.colours)}`;
        const toggle = () => {
          this.hidden.has(line.label) ? this.hidden.delete(line.label) : this.hidden.add(line.label);
          this.redraw();
        };
        const pressed = String(!this.hidden.has(line.label));
        return sw.el("li", {}, sw.el("button", { type: "button", "aria-pressed": pressed, onclick: toggle }, sw.el("i", { style }), line.label));
      }));
    }

    /** Describe the values at the pointer, and pick its x while the pointer is down. */
    read(event) {
      if (!this.content || !this.px) return;
      const box = this.svg.getBoundingClientRect();
      const at = this.unpx((event.clientX - box.left) * (Math.max(160, this.box.clientWidth) / box.width));
      if (this.picking && this.onpick) this.onpick(at);
      const { x, y } = this.content;
      const distance = x.log ? value => Math.abs(Math.log(value / at)) : value => Math.abs(value - at);
      let nearest = null;
      for (const line of this.shown)
        for (const [a] of line.points) if ((!x.log || a > 0) && (nearest === null || distance(a) < distance(nearest))) nearest = a;
      if (nearest === null) return;
      this.cross.setAttribute("x1", this.px(nearest));
      this.cross.setAttribute("x2", this.px(nearest));
      this.cross.setAttribute("visibility", "visible");
      const words = [`${x.name} ${sw.number(nearest, 4)}`];
      for (const line of this.shown) {
        const found = line.points.find(([a]) => a === nearest);
        if (found && found[1] !== null) words.push(`${line.label}: ${sw.number(found[1], 4)}${y.unit || ""}`);
      }
      sw.hint(words.slice(0, 14).join("\n"), event.clientX, event.clientY);
    }
  };
}
