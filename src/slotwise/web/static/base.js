"use strict";
/* Shared by all pages: elements, numbers, colours, requests, and the hint at the pointer. */
const sw = { boot: JSON.parse(document.getElementById("boot").textContent) };
window.sw = sw;

sw.el = (name, attributes = {}, ...children) => {
  const [tag, ...classes] = name.split(".");
  const made = document.createElement(tag || "div");
  if (classes.length) made.className = classes.join(" ");
  sw.set(made, attributes);
  made.append(...children.filter(child => child !== null && child !== undefined && child !== false));
  return made;
};

sw.set = (element, attributes) => {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key in element && typeof value !== "string") element[key] = value;
    else if (value !== undefined && value !== null && value !== false) element.setAttribute(key, value);
  }
  return element;
};

sw.svg = (tag, attributes = {}, ...children) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined) made.setAttribute(key, value);
  made.append(...children);
  return made;
};

/* Numbers */
sw.whole = value => value === null || value === undefined ? "–" : Math.round(value).toLocaleString("en-US");
sw.number = (value, digits = 3) => {
  if (value === null || value === undefined || !isFinite(value)) return "–";
  if (Number.isInteger(value) || Math.abs(value) >= 1000) return sw.whole(value);
  return Number(value.toPrecision(digits)).toLocaleString("en-US", { maximumFractionDigits: 12 });
};
sw.loss = value => value !== null && Math.abs(value) >= 1e5 ? value.toExponential(1).replace("e+", "e") : sw.number(value, 4);
/** A loss with four digits, zeros at its end included, so that those of a column are as long. */
sw.fourDigits = value => value === null || Math.abs(value) >= 1000 || Math.abs(value) < 1e-6 ? sw.loss(value) : value.toPrecision(4);
sw.percent = (value, digits = 0) => value === null || value === undefined ? "–" : (100 * value).toFixed(digits) + " %";
/** Seconds in the unit that suits them. */
sw.duration = (seconds, digits = 4) => {
  if (Math.abs(seconds) < 1) return sw.number(1000 * seconds, digits) + " ms";
  return seconds < 7200 ? sw.number(seconds, digits) + " s" : sw.number(seconds / 3600, digits) + " h";
};
sw.amount = (value, noun) => sw.whole(value) + " " + noun + (value === 1 ? "" : "s");

/* Colours, which follow the reader's choice of light or dark */
sw.darkness = matchMedia("(prefers-color-scheme: dark)");
sw.tone = pair => pair[sw.darkness.matches ? 1 : 0];
sw.redraws = new Set();  // functions to call when colours change
sw.darkness.addEventListener("change", () => sw.redraws.forEach(redraw => redraw()));
sw.css = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
sw.activity = {};
for (const look of sw.boot.activities || []) sw.activity[look.kind] = sw.activity[look.name] = look;

/* Requests */
sw.pending = 0;
sw.waiting = [];
sw.begin = () => { sw.pending += 1; };
sw.end = () => {
  sw.pending -= 1;
  // After the next frame, when what has arrived is also drawn.
  if (!sw.pending) requestAnimationFrame(() => { if (!sw.pending) sw.waiting.splice(0).forEach(done => done()); });
};
/** Resolve when nothing is being asked or drawn any more. */
sw.settled = () => new Promise(done => { sw.waiting.push(done); sw.begin(); sw.end(); });

sw.address = (path, parameters) => path + "?" + new URLSearchParams(parameters);

sw.refusal = async answer => {
  let found = {};
  try { found = await answer.json(); } catch { /* not of this server */ }
  const { message = "the server answered " + answer.status, parameter, requirement } = found;
  return Object.assign(new Error(message), { parameter, requirement });
};

sw.fetch = async (address, options = {}) => {
  try { return await fetch(address, options); } catch (error) {
    throw error.name === "AbortError" ? error : new Error("the server does not answer: is its command still running?");
  }
};

sw.ask = async (path, parameters = {}, signal = undefined) => {
  const answer = await sw.fetch(sw.address(path, parameters), { signal });
  if (!answer.ok) throw await sw.refusal(answer);
  return answer.json();
};

sw.post = async (path, table = {}) => {
  const headers = { "Content-Type": "application/json" };
  const answer = await sw.fetch(path, { method: "POST", headers, body: JSON.stringify(table) });
  if (!answer.ok) throw await sw.refusal(answer);
  return answer.json();
};

/** Return a function that runs `work` with its newest arguments, one call at a time: those in between are skipped. */
sw.latest = work => {
  let running = false, next = null;
  const run = async args => {
    running = true;
    try { await work(...args); } finally {
      running = false;
      sw.end();
      if (next) { const then = next; next = null; run(then); }
    }
  };
  const call = (...args) => {
    if (running) { if (!next) sw.begin(); next = args; } else { sw.begin(); run(args); }
  };
  call.isLast = () => !next;  // of the call that runs
  return call;
};

/* What is being computed says so, if it takes longer than a blink. */
sw.SLOW_MS = 400;
sw.busy = (place, text) => {
  place.classList.toggle("busy", Boolean(text));
  place.setAttribute("aria-busy", String(Boolean(text)));
  place.dataset.busy = text;
};
/** Return what `work` resolves to; until then `places` say so, those that are empty at once. */
sw.computing = async (places, work, text = "computing…") => {
  const mark = () => places.forEach(place => sw.busy(place, text));
  const timer = setTimeout(mark, places.some(place => place.dataset.empty) ? 0 : sw.SLOW_MS);
  try { return await work; } finally {
    clearTimeout(timer);
    places.forEach(place => sw.busy(place, ""));
  }
};

/* The hint at the pointer */
sw.hint = (text, x, y) => {
  const hint = document.getElementById("hint");
  hint.style.visibility = text ? "visible" : "hidden";
  if (!text) return;
  hint.textContent = text;
  const room = document.documentElement, box = hint.getBoundingClientRect();
  const below = y + 18 + box.height < room.clientHeight;
  hint.style.left = Math.max(4, Math.min(x + 14, room.clientWidth - box.width - 4)) + "px";
  hint.style.top = (below ? y + 18 : Math.max(4, y - 12 - box.height)) + "px";
};
sw.say = text => { document.getElementById("said").textContent = text; };
document.addEventListener("scroll", () => sw.hint(""), true);

/** Show a whole error, or nothing; with `onshow` there is a button that leads to the option at fault. */
sw.trouble = (message, onshow = null) => {
  const place = document.getElementById("error");
  place.hidden = !message;
  place.replaceChildren(message ? message[0].toUpperCase() + message.slice(1) + " " : "");
  if (message && onshow) place.append(sw.el("button", { type: "button", onclick: onshow }, "Show the option"));
};
