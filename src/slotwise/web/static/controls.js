"use strict";
/* Controls made from the descriptions that the server derives from its options. Values are texts, as in an address. */
{
  const KINDS = {
    "two-classes": { title: "two classes", parts: ["fast", "slow", "share slow"], usual: slots => [Math.max(1, Math.round(slots / 2)), slots * 2, 0.3] },
    lognormal: { title: "lognormal", parts: ["median", "sigma"], usual: slots => [slots, 0.5] },
    uniform: { title: "uniform", parts: ["from", "to"], usual: slots => [Math.max(1, Math.round(slots / 2)), Math.round(slots * 1.5)] },
  };
  const NONE = { radio_link: "fixed slots" };  // what an option that is not given means, if not "none"
  let count = 0;

  class Control {
    constructor(description, form) {
      Object.assign(this, { description, form, name: description.name });
      this.id = "control-" + ++count;
      this.wrong = sw.el("span.wrong", { id: this.id + "-wrong", role: "alert", hidden: true });
      this.note = sw.el("span.note", { hidden: true });
      this.box = sw.el("div.control", { title: description.help, "data-name": this.name });
    }

    get usual() { return this.description.default === null ? "" : String(this.description.default); }

    /** Take a value of the user. */
    give(text) {
      this.form.give(this.name, text === this.usual ? "" : text);
    }

    error(message) {
      this.wrong.hidden = !message;
      this.wrong.textContent = message || "";
      for (const field of this.box.querySelectorAll("input, select")) field.setAttribute("aria-invalid", String(Boolean(message)));
    }

    unused(reason) {
      this.box.classList.toggle("unused", Boolean(reason));
      this.box.title = reason ? `No effect ${reason}` : this.description.help;
      for (const field of this.box.querySelectorAll("input, select")) field.disabled = Boolean(reason);
    }
  }

  class NumberControl extends Control {
    constructor(description, form) {
      super(description, form);
      const look = description.look;
      this.input = sw.el("input", { type: "number", id: this.id, step: description.whole ? "1" : "any", min: description.default < 0 ? null : "0",
        placeholder: description.default === null ? "not set" : "", "aria-describedby": this.wrong.id, inputmode: "decimal",
        oninput: () => this.give(this.input.value.trim()) });
      const head = sw.el("div.control-head", {}, sw.el("label", { for: this.id }, description.label), this.input);
      this.box.append(head);
      if (look) {
        this.slider = sw.el("input", { type: "range", min: "0", max: "1000", "aria-label": description.label,
          oninput: () => this.give(String(this.atSlider())) });
        this.slider.addEventListener("keydown", event => this.step(event));
        this.box.append(this.slider);
      }
      this.box.append(this.wrong, this.note);
    }

    get high() {
      const { high } = this.description.look;
      return typeof high === "string" ? Math.max(2, Number(this.form.value(high))) : high;
    }

    atSlider() {
      const { low, log, step } = this.description.look, part = this.slider.value / 1000;
      const value = log ? low * (this.high / low) ** part : low + (this.high - low) * part;
      if (!this.description.whole) return Number((Math.round(value / step) * step).toFixed(6));
      const digits = value >= 2000 ? 2 : value >= 200 ? 1 : 0;  // round numbers where a pixel is many
      return Math.round(value / 10 ** digits) * 10 ** digits || low;
    }

    /** Arrow keys change a whole number by one. */
    step(event) {
      const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
      if (!by || !this.description.whole) return;
      event.preventDefault();
      const value = Number(this.form.value(this.name)) + by;
      this.give(String(Math.max(this.description.look.low, Math.min(this.high, value))));
    }

    show(text) {
      if (document.activeElement !== this.input) this.input.value = text;
      if (!this.slider) return;
      const { low, log } = this.description.look, value = Math.max(low, Math.min(this.high, Number(text)));
      this.slider.value = 1000 * (log ? Math.log(value / low) / Math.log(this.high / low) : (value - low) / (this.high - low));
      this.slider.setAttribute("aria-valuetext", text);
    }
  }

  class ChoiceControl extends Control {
    constructor(description, form) {
      super(description, form);
      this.input = sw.el("select", { id: this.id, onchange: () => this.give(this.input.value) },
        ...description.choices.map(choice => sw.el("option", { value: choice }, choice || NONE[description.name] || "none")));
      this.box.append(sw.el("div.control-head", {}, sw.el("label", { for: this.id }, description.label), this.input), this.wrong);
    }

    show(text) { this.input.value = text; }
  }

  /** Group sizes from later slots on, such as 10@1000, 5@2000. */
  class ChangesControl extends Control {
    constructor(description, form) {
      super(description, form);
      this.input = sw.el("input", { type: "text", id: this.id, placeholder: "10@1000, 5@2000", "aria-describedby": this.wrong.id, onchange: () => this.give(this.input.value.trim()) });
      this.box.append(sw.el("div.control-head", {}, sw.el("label", { for: this.id }, description.label)), this.input, this.wrong);
    }

    show(text) { if (document.activeElement !== this.input) this.input.value = text; }
  }

  class SegmentControl extends Control {
    constructor(description, form) {
      super(description, form);
      this.box.setAttribute("role", "radiogroup");
      this.box.setAttribute("aria-label", description.label);
      this.inputs = description.choices.map(choice => sw.el("input", { type: "radio", name: this.id, value: choice, onchange: () => this.give(choice) }));
      this.box.append(sw.el("span.name", { style: "font-weight:500" }, description.label),
        sw.el("div.segments", {}, ...this.inputs.map(input => sw.el("label", {}, input, input.value))), this.wrong);
    }

    show(text) { for (const input of this.inputs) input.checked = input.value === text; }
  }

  class DelayControl extends Control {
    constructor(description, form) {
      super(description, form);
      this.auto = sw.el("input", { type: "checkbox", id: this.id, onchange: () => this.give(this.auto.checked ? "auto" : String(this.used ?? 0)) });
      this.number = sw.el("input", { type: "number", min: "0", step: "1", "aria-label": "Delay in rounds", oninput: () => this.give(this.number.value) });
      this.slider = sw.el("input", { type: "range", min: "0", max: "0", step: "1", "aria-label": description.label, oninput: () => this.give(this.slider.value) });
      this.mark = sw.el("button.mark", { type: "button", title: "Use the largest delay that costs nothing", onclick: () => this.give("auto") }, "free");
      this.box.append(
        sw.el("div.control-head", {}, sw.el("span.name", {}, description.label), sw.el("label", { class: "check quiet", for: this.id }, this.auto, "auto"), this.number),
        sw.el("div.slider", {}, this.slider, this.mark), this.wrong);
    }

    show(text) {
      this.auto.checked = text === "auto";
      if (text !== "auto" && document.activeElement !== this.number) this.number.value = text;
      if (text !== "auto") this.slider.value = text;
      this.place();
    }

    /** Take what the server says about delays. */
    tell({ used, largest, free }) {
      Object.assign(this, { used, largest, free });
      this.slider.max = largest;
      if (this.auto.checked) {
        this.slider.value = used ?? 0;
        this.number.value = used ?? "";
        this.number.placeholder = used === null ? "varies" : "";
      } else this.slider.value = this.form.value(this.name);
      this.place();
    }

    place() {
      this.mark.hidden = this.free === null || this.free === undefined || !this.largest;
      if (this.mark.hidden) return;
      const part = this.free / this.largest;  // the thumb of a slider stays inside its ends
      this.mark.style.left = `calc(8px + ${part} * (100% - 16px))`;
      this.mark.textContent = `free: ${this.free}`;
    }
  }

  class DistributionControl extends Control {
    constructor(description, form) {
      super(description, form);
      this.kind = sw.el("select", { id: this.id, onchange: () => this.choose() }, sw.el("option", { value: "" }, "equal"),
        ...Object.entries(KINDS).map(([name, kind]) => sw.el("option", { value: name }, kind.title)));
      this.parts = sw.el("div.parts", { hidden: true });
      this.box.append(sw.el("div.control-head", {}, sw.el("label", { for: this.id }, description.label), this.kind), this.parts, this.wrong);
    }

    choose() {
      const slots = Number(this.form.value(this.name.startsWith("link") ? "link_slots" : "compute_slots"));
      this.give(this.kind.value ? [this.kind.value, ...KINDS[this.kind.value].usual(slots)].join(":") : "");
    }

    show(text) {
      const [kind, ...values] = text.split(":");
      this.kind.value = kind in KINDS ? kind : "";
      this.parts.hidden = !(kind in KINDS);
      if (this.parts.hidden) return;
      const names = KINDS[kind].parts;
      if (this.parts.dataset.kind !== kind) {
        this.parts.dataset.kind = kind;
        const join = () => this.give([kind, ...[...this.parts.querySelectorAll("input")].map(input => input.value)].join(":"));
        this.parts.replaceChildren(...names.map(name => sw.el("label", {}, name, sw.el("input", { type: "number", min: "0", step: "any", oninput: join }))));
      }
      [...this.parts.querySelectorAll("input")].forEach((input, i) => { if (document.activeElement !== input) input.value = values[i] ?? ""; });
    }
  }

  const KIND = { number: NumberControl, choice: ChoiceControl, delay: DelayControl, distribution: DistributionControl, changes: ChangesControl };

  /** All controls of some sections and their values: texts by name, only of those that differ from the default. */
  sw.Form = class {
    constructor(sections, onchange) {
      this.given = {};
      this.onchange = onchange;
      this.controls = {};
      for (const description of sw.boot.controls) {
        if (!sections.includes(description.section)) continue;
        const kind = description.name === "schedule" ? SegmentControl : KIND[description.kind];
        this.controls[description.name] = new kind(description, this);
      }
    }

    of(section) { return Object.values(this.controls).filter(control => control.description.section === section); }

    value(name) { return this.given[name] ?? this.controls[name].usual; }

    /** Set one value; "" is the default. */
    give(name, text) {
      if (text === "") delete this.given[name]; else this.given[name] = text;
      this.fit();
      this.show();
      this.onchange(name);
    }

    /** Keep values within the ranges that other values set. */
    fit() {
      for (const control of Object.values(this.controls)) {
        const high = control.description.look?.high;
        if (typeof high !== "string") continue;
        const most = Number(this.value(high)), now = Number(this.value(control.name));
        if (most >= 1 && now > most) this.given[control.name] = String(most);
        if (this.given[control.name] === control.usual) delete this.given[control.name];
      }
    }

    set(given) {
      this.given = Object.fromEntries(Object.entries(given).filter(([name]) => name in this.controls));
      this.show();
    }

    show() { for (const control of Object.values(this.controls)) control.show(this.value(control.name)); }

    unused(reasons) { for (const control of Object.values(this.controls)) control.unused(reasons[control.name]); }

    /** Show an error at its control; returns whether there is one. */
    error(parameter, message) {
      for (const control of Object.values(this.controls)) control.error(control.name === parameter ? message : "");
      const wrong = this.controls[parameter], hidden = wrong?.box.closest("details");
      wrong?.unused("");  // what must be changed can be seen and changed
      if (hidden && message) hidden.open = true;
      return parameter in this.controls;
    }

    /** Bring the control of an option into view and give it the keyboard. */
    focus(name) {
      const { box } = this.controls[name];
      for (let outer = box.closest("details"); outer; outer = outer.parentElement.closest("details")) outer.open = true;
      box.scrollIntoView({ block: "center" });
      box.querySelector("input:not(:disabled), select:not(:disabled)")?.focus({ preventScroll: true });
    }

    /** Say how long slots are, at the controls that count them. */
    tellSlot(seconds) {
      for (const control of Object.values(this.controls)) {
        if (!control.description.look?.slots) continue;
        control.note.hidden = seconds === null || Boolean(control.box.classList.contains("unused"));
        if (seconds !== null) control.note.textContent = `${sw.whole(Number(this.value(control.name)))} slots = ${sw.duration(seconds * Number(this.value(control.name)))}`;
      }
    }
  };
}
