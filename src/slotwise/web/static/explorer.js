"use strict";
/* The explorer: controls on the left; cards, Gantt chart, group sizes and training on the right. */
{
  const TITLES = { sync: "synchronous", async: "asynchronous", idfl: "intentional delay" };
  const SHARES = { computing: "computing", sending: "sending", receiving: "receiving", idle: "waiting-for-model" };
  const EXAMPLE_POWERS = { power_computing: "2", power_sending: "1", power_receiving: "0.5", power_idle: "0.1", slot_seconds: "0.01" };
  const MOST_DOTS = 2000;  // of a plot
  const byId = id => document.getElementById(id);

  const form = new sw.Form(["plan", "more", "radio", "energy"], name => changed(name));
  sw.form = form;
  const gantt = new sw.Gantt(byId("gantt"), { height: innerWidth < 800 ? 420 : 590 });
  sw.gantt = gantt;
  const pickSize = size => {
    const chosen = Math.max(1, Math.min(Number(form.value("devices")), Math.round(size)));
    if (String(chosen) !== form.value("group_size")) form.give("group_size", String(chosen) === form.controls.group_size.usual ? "" : String(chosen));
  };
  const roundsPlot = new sw.Plot(byId("plot-rounds"), { onpick: pickSize, name: "Rounds over group sizes" });
  const stalenessPlot = new sw.Plot(byId("plot-staleness"), { onpick: pickSize, name: "Staleness over group sizes" });
  const uplinksPlot = new sw.Plot(byId("plot-uplinks"), { height: 330, legend: false, name: "Uplinks of the devices against their distance" });
  sw.plots = { rounds: roundsPlot, staleness: stalenessPlot, uplinks: uplinksPlot };
  const map = sw.map = new sw.CellMap(byId("cell-map"));

  let radio = null;  // the options of the radio, which are there with a link model that has one
  const layControls = () => {
    const section = (title, controls, ...before) => sw.el("details.more", {}, sw.el("summary", {}, title), sw.el("div", {}, ...before, ...controls.map(control => control.box)));
    const fill = sw.el("button", { type: "button", onclick: () => { Object.assign(form.given, EXAMPLE_POWERS); form.show(); changed("power_computing"); } }, "Fill in an example");
    const clear = sw.el("button", { type: "button", onclick: () => { for (const name in EXAMPLE_POWERS) delete form.given[name]; form.show(); changed("power_computing"); } }, "Clear");
    const energy = section("Energy", form.of("energy"), sw.el("div.line", {}, fill, clear));
    const reset = sw.el("button", { type: "button", id: "reset", onclick: () => { form.set({}); changed(""); } }, "Reset all");
    radio = section("Radio", form.of("radio"));
    byId("controls").append(...form.of("plan").map(control => control.box), radio, section("More options", form.of("more")), energy, reset);
    byId("controls").addEventListener("submit", event => event.preventDefault());
    byId("controls-box").open = innerWidth >= 800;
  };

  /* State and address */
  const planned = () => Object.fromEntries(Object.entries(form.given));
  const remember = () => {
    const place = new URL(location.href);
    const tab = new URLSearchParams(place.search).get("tab");
    place.search = new URLSearchParams({ ...(tab ? { tab } : {}), ...form.given });
    history.replaceState(null, "", place);
  };
  const recall = () => {
    const given = Object.fromEntries(new URLSearchParams(location.search));
    form.set(given);
  };

  /* Every change: figures, chart and group sizes are asked for at once. */
  let shown = null, streaming = null;
  const changed = name => {
    remember();
    radio.hidden = !form.value("radio_link");
    if (name === "radio_link") radio.open = !radio.hidden;
    streaming?.abort();
    askView();
  };

  const content = byId("explore").querySelector(".content");
  const askView = sw.latest(async () => {
    const given = planned();
    if (!shown) drawEmptyCards();
    try {
      // Unequal devices are simulated event by event: the chart comes first, then the other schedules.
      const brief = shown && shown.view.delay.free === null;
      const asked = sw.ask("api/view", { ...given, ...gantt.wanted, ...(brief ? { brief: 1 } : {}) });
      const places = [gantt.place, ...byId("cards").children, ...(shown ? [] : [roundsPlot.box, stalenessPlot.box])];
      const view = await sw.computing(places, asked);
      if (brief) view.schedules = { ...shown.view.schedules, ...view.schedules };
      const plan = withoutPowers(given);
      const source = wanted => sw.ask("api/part", { ...plan, ...wanted });
      shown = { view, given: plan };
      sw.view = view.options;
      form.error("", "");
      sw.trouble("");
      content.classList.remove("stale", "nothing");
      form.unused(view.unused);
      if (form.controls.delay) form.controls.delay.tell(view.delay);
      form.tellSlot(view.slot_seconds);
      drawCards(view);
      drawHead(view);
      drawSizes();
      gantt.show(view.gantt, source, view.part, view.slot_seconds);
      sw.training?.planned(view);
      byId("cell").hidden = !view.options.radio_link;
      byId("access").hidden = view.options.radio_link !== "rate-adaptive";
      if (askView.isLast()) {
        askSizes();
        if (brief) await askOthers(given);
        if (!byId("access").hidden && askView.isLast()) await askAccess(plan);
        if (view.options.radio_link && askView.isLast()) await askCell(plan);
      }
    } catch (error) { refuse(error); }
  });

  /** Ask for the figures of all schedules; until they come, those of the others are of earlier options. */
  const askOthers = async given => {
    const others = [...byId("cards").children].filter(card => card.dataset.schedule !== shown.view.chosen);
    others.forEach(card => sw.busy(card, "computing…"));
    const { schedules } = await sw.ask("api/view", given);
    if (!askView.isLast()) return;
    shown.view.schedules = schedules;
    drawCards(shown.view);
    drawSizes();
  };

  /* The access schemes of a radio link */
  const askAccess = async plan => {
    const found = await sw.computing([byId("schemes")], sw.ask("api/access", plan));
    byId("access").hidden = !found;
    if (found && askView.isLast()) sw.showSchemes(found, shown.view, name => form.give("access", name === form.controls.access.usual ? "" : name));
  };

  /* The cell of a radio link */
  const askCell = async plan => {
    const cell = await sw.computing([map.box, uplinksPlot.box], sw.ask("api/cell", plan));
    byId("cell").hidden = !cell;
    if (!cell || !askView.isLast()) return;
    const { view } = shown, lossy = cell.threshold_db !== null;
    map.show(cell, view.slot_seconds);
    byId("cell-note").textContent = "▲ is the server. Only distances matter; directions are arbitrary.";
    byId("uplinks-title").textContent = lossy ? "Lost uplinks against distance" : "Slots of an uplink against distance";
    byId("uplinks-note").textContent = lossy ? `An uplink is lost below ${sw.number(cell.threshold_db, 3)} dB.` : "Mean of each device until the deadline.";
    drawUplinks(cell, lossy);
  };

  const drawUplinks = (cell, lossy) => {
    const share = i => { const sent = cell.arrived[i] + cell.lost[i]; return sent ? 100 * cell.lost[i] / sent : null; };
    const every = Math.ceil(cell.distance_m.length / MOST_DOTS);
    const dots = [...cell.distance_m.keys()].filter(i => i % every === 0).map(i => ({ x: cell.distance_m[i], y: lossy ? share(i) : cell.mean_slots[i],
      r: 3.4, colours: [map.colourOf(i), map.colourOf(i)], title: map.describe(i) })).filter(dot => dot.y !== null);
    uplinksPlot.draw({ lines: [], dots, x: { name: "distance (m)", low: 0 }, y: lossy ? { name: "uplinks lost (%)", low: 0, high: 100 } : { name: "slots of an uplink", low: 0 } });
  };

  const withoutPowers = given => Object.fromEntries(Object.entries(given).filter(([name]) => form.controls[name]?.description.section !== "energy"));

  /** Show an error at its option and above the page; what was shown before is not of these options. */
  const refuse = error => {
    const here = form.error(error.parameter, error.requirement || error.message);
    sw.trouble(error.message, here ? () => form.focus(error.parameter) : null);
    content.classList.add(shown ? "stale" : "nothing");
    if (!shown) byId("gantt-title").textContent = "Nothing to show with these options";
  };

  /* Cards */
  const drawCards = view => {
    const lossy = Object.values(view.schedules).some(found => found?.lost);  // the same lines in all cards
    const cards = Object.entries(view.schedules).map(([name, found]) => card(name, found, view.chosen === name, lossy));
    const focused = document.activeElement?.dataset?.schedule;
    byId("cards").replaceChildren(...cards);
    if (focused) byId("cards").querySelector(`[data-schedule=${focused}]`)?.focus();
  };

  /** Cards that are waited for. */
  const drawEmptyCards = () => {
    const empty = name => sw.el("div.card", { "data-empty": "1", style: `--tone:${sw.tone(sw.boot.schedules[name])};min-height:190px` }, sw.el("h3", {}, name, sw.el("small", {}, TITLES[name])));
    byId("cards").replaceChildren(...Object.keys(TITLES).map(empty));
  };

  const card = (name, found, chosen, lossy) => {
    const choose = () => form.give("schedule", name === form.controls.schedule.usual ? "" : name);
    const made = sw.el("div.card", { role: "radio", tabindex: chosen ? "0" : "-1", "aria-checked": String(chosen), "data-schedule": name,
      style: `--tone:${sw.tone(sw.boot.schedules[name])}`, onclick: choose,
      onkeydown: event => {
        if (event.key === " " || event.key === "Enter") { event.preventDefault(); choose(); }
        const next = { ArrowRight: "nextSibling", ArrowDown: "nextSibling", ArrowLeft: "previousSibling", ArrowUp: "previousSibling" }[event.key];
        if (next && made[next]) { event.preventDefault(); made[next].focus(); made[next].click(); }
      } },
      sw.el("h3", {}, name, sw.el("small", {}, TITLES[name] || "")));
    if (!found) {
      made.append(sw.el("p.quiet", {}, "No round ends by the deadline."));
      return made;
    }
    const big = (value, noun, key) => sw.el("div", {}, sw.el("b", { "data-figure": key }, value), sw.el("span", {}, noun));
    const staleness = big(sw.number(found.mean_staleness, 3), "mean staleness, at most ", "mean_staleness");
    staleness.lastChild.append(sw.el("span", { "data-figure": "max_staleness" }, sw.whole(found.max_staleness)));
    made.append(sw.el("div.big", {}, big(sw.whole(found.rounds), "rounds", "rounds"), staleness));
    made.append(stack(found.shares));
    const air = found.air_slots, spread = air.least === air.most ? sw.whole(air.most) : `${sw.whole(air.least)}–${sw.whole(air.most)}`;
    const facts = [["Updates applied", sw.whole(found.updates), "updates"]];
    if (lossy) facts.push(["Uplinks lost", sw.whole(found.lost), "lost"]);
    facts.push(["Channel in use", sw.percent(found.channel_share, 1), "channel_share"], ["Air time of a device", spread + " slots", "air_slots"]);
    if (found.server_joules !== null) facts.push(["Energy of the server", sw.number(found.server_joules, 4) + " J", "server_joules"]);
    if (found.joules !== null) facts.push(["Energy of all devices", sw.number(found.joules, 4) + " J", "joules"]);
    if (name === "idfl") facts.push(["Delay", found.delay === null ? "just in time" : sw.amount(found.delay, "round"), "delay"]);
    made.append(sw.el("dl.facts", {}, ...facts.flatMap(([term, value, key]) => [sw.el("dt", {}, term), sw.el("dd", { "data-figure": key }, value)])));
    return made;
  };

  const stack = shares => {
    const colour = name => sw.tone(sw.activity[SHARES[name]].colours);
    const label = Object.entries(shares).map(([name, share]) => `${name} ${sw.percent(share, 1)}`).join(", ");
    return sw.el("div", {},
      sw.el("div.stack", { role: "img", "aria-label": "Time of the devices: " + label, title: label }, ...Object.entries(shares).map(([name, share]) => sw.el("i", { style: `width:${100 * share}%;background:${colour(name)}` }))),
      sw.el("div.shares", { style: "margin-top:5px" }, ...Object.entries(shares).map(([name, share]) => sw.el("span", {}, sw.el("i", { style: `background:${colour(name)}` }), `${name} ${sw.percent(share, 1)}`))));
  };

  const drawHead = view => {
    byId("gantt-title").textContent = view.describe[1];
    byId("gantt-note").textContent = view.describe[0];
  };

  /* Group sizes */
  let rows = [];
  const askSizes = () => {
    streaming?.abort();
    const mine = streaming = new AbortController();
    const boxes = [roundsPlot.box, stalenessPlot.box], note = byId("sizes-note");
    note.textContent = "";
    sw.begin();
    const reading = readSizes(withoutPowers(planned()), mine.signal, boxes);
    sw.computing(boxes, reading).catch(error => { if (error.name !== "AbortError") note.textContent = `The curves over group sizes are not complete: ${error.message}.`; }).finally(sw.end);
  };

  const readSizes = async (given, signal, boxes) => {
    const answer = await sw.fetch(sw.address("api/sizes", given), { signal });
    if (!answer.ok) throw await sw.refusal(answer);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "", found = [], wanted = 0;
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      text += value;
      const lines = text.split("\n");
      text = lines.pop();
      for (const line of lines) {
        const part = JSON.parse(line);
        if (part.message) throw new Error(part.message);
        if ("wanted" in part) wanted = part.wanted;
        else found = [...found, ...part];
      }
      rows = [...found].sort((a, b) => a.group_size - b.group_size);
      drawSizes();
      if (boxes[0].classList.contains("busy")) boxes.forEach(box => sw.busy(box, `computing… ${found.length} of ${wanted} group sizes`));
    }
  };

  const drawSizes = () => {
    if (!shown || !rows.length) return;
    const { view } = shown, size = view.options.group_size;
    const unequal = rows.some(row => row.idfl && "mean_staleness" in row.idfl);
    const points = (name, key) => rows.filter(row => row[name] && (!unequal || row[name].rounds)).map(row => [row.group_size, row[name][key]]);
    const line = (name, key, dash) => ({ label: name, colours: sw.boot.schedules[name], points: points(name, key), dash });
    const dot = key => view.schedules[view.chosen] ? [{ x: size, y: view.schedules[view.chosen][key], colours: sw.boot.schedules[view.chosen] }] : [];
    const x = { name: "group size", log: view.options.devices > 3, low: 1, high: Math.max(2, view.options.devices) };
    const marks = [{ x: size, label: `S = ${size}` }];
    const stale = unequal ? "mean_staleness" : "max_staleness";
    roundsPlot.draw({ lines: [line("sync", "rounds"), line("async", "rounds"), line("idfl", "rounds", "6 4")], x, y: { name: "rounds by the deadline", low: 0 }, marks, dots: dot("rounds") });
    stalenessPlot.draw({ lines: [line("sync", stale), line("async", stale), line("idfl", stale, "6 4")], x, y: { name: unequal ? "mean staleness" : "staleness of the oldest", low: 0 }, marks, dots: dot(stale) });
  };

  /* Buttons */
  const copy = async (button, text) => {
    try { await navigator.clipboard.writeText(text); } catch {
      const area = sw.el("textarea", {}, text);
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    const label = button.dataset.label ||= button.textContent;
    button.textContent = "copied";
    sw.say(label + " copied");
    setTimeout(() => { button.textContent = label; }, 1200);
  };
  for (const button of byId("copies").querySelectorAll("button"))
    button.addEventListener("click", () => {
      if (button.dataset.form === "link") copy(button, location.href);
      else if (shown) copy(button, shown.view.forms[button.dataset.form]);
    });

  const download = (label, name, title) => sw.el("button", { type: "button", title, onclick: () => {
    if (!shown) return;
    const { first, end } = gantt.seen;
    const window = name.startsWith("timeline") ? { from: first, to: Math.min(end, first + 2000) } : {};
    sw.el("a", { href: sw.address("api/download/" + name, { ...shown.given, ...window }), download: name }).click();
  } }, label);
  byId("gantt-tools").append(...gantt.buttons(), download("SVG", "timeline.svg", "Download the slots shown as SVG"),
    download("PNG", "timeline.png", "Download the slots shown as PNG"), download("CSV", "uplinks.csv", "Download all uplinks as CSV"));

  /* Tabs */
  const tabs = { explore: byId("tab-explore"), results: byId("tab-results") };
  const open = (name, keep = false) => {
    for (const [key, tab] of Object.entries(tabs)) {
      tab.setAttribute("aria-selected", String(key === name));
      tab.tabIndex = key === name ? 0 : -1;
      byId(key).hidden = key !== name;
    }
    byId("copies").hidden = name !== "explore";
    if (!keep) {
      const place = new URL(location.href);
      place.searchParams.set("tab", name);
      history.replaceState(null, "", place);
    }
    if (name === "results") sw.results.open();
    else { gantt.layout(); drawSizes(); }
  };
  sw.open = open;
  for (const [name, tab] of Object.entries(tabs)) {
    tab.addEventListener("click", () => open(name));
    tab.addEventListener("keydown", event => {
      if (event.key === "ArrowRight" || event.key === "ArrowLeft") { const other = name === "explore" ? "results" : "explore"; tabs[other].focus(); open(other); }
    });
  }
  sw.redraws.add(() => { if (shown) drawCards(shown.view); });
  /** Show the options of a run. */
  sw.explore = given => { form.set(given); open("explore"); changed(""); };
  addEventListener("popstate", () => { recall(); changed(""); });

  layControls();
  recall();
  open(new URLSearchParams(location.search).get("tab") === "results" || (sw.boot.results && !location.search) ? "results" : "explore", true);
  changed("");
}
