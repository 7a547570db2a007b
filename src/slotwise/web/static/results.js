"use strict";
/* The results browser: a table of runs, their curves, and the timeline of each. */
{
  const place = document.getElementById("results");
  const METRIC = "metric ";  // before the name of a metric of a task: options may have the same name
  const LOSS = [["loss", "training loss"], ["accuracy", "test accuracy"]], COSTS = [["rounds", "rounds"], ["seconds", "trained (s)"]];
  const MOST_METRICS = 6;  // columns
  const AXES = { slot: "slots", seconds: "seconds", round: "rounds", updates: "updates", joules: "joules" };
  const AXIS_NAMES = { slot: "slot", seconds: "time (s)", round: "round", updates: "updates applied", joules: "energy of all devices (J)" };
  const CHOSEN_AT_FIRST = 6;  // lines, each with all its seeds
  const USUAL = 3;  // options that are always shown, before the figures
  const OPERATORS = { "=": (a, b) => a === b, "!=": (a, b) => a !== b, "<": (a, b) => Number(a) < Number(b), ">": (a, b) => Number(a) > Number(b),
    "<=": (a, b) => Number(a) <= Number(b), ">=": (a, b) => Number(a) >= Number(b) };
  let listing = null, sorted = { key: "run", down: false }, chosen = new Set(), loaded = false, timelineOf = null;

  const search = sw.el("input", { type: "search", placeholder: "group_size>=5 finished …", "aria-label": "Filter runs", oninput: () => drawTable() });
  const picks = sw.el("div.filters");
  const across = sw.el("select", { onchange: () => askCurves(), "aria-label": "Horizontal axis" }, ...Object.entries(AXES).map(([value, name]) => sw.el("option", { value }, name)));
  const metric = sw.el("select", { onchange: () => askCurves(), "aria-label": "Metric beside the loss" }, sw.el("option", { value: "accuracy" }, "accuracy"));
  const note = sw.el("p.quiet"), curvesNote = sw.el("p.quiet", { hidden: true });
  const table = sw.el("table"), head = sw.el("thead"), body = sw.el("tbody");
  table.append(head, body);
  const tableBox = sw.el("div.chart.table-box", { tabindex: "0", role: "region", "aria-label": "Table of runs", "data-empty": "1" }, table);
  const answers = sw.el("div");
  const curvesBox = sw.el("section.panel", {}, sw.el("div.panel-head", {}, sw.el("div", {}, sw.el("h2", {}, "Curves of the chosen runs"), curvesNote),
    sw.el("div.tools", {}, sw.el("label", { class: "line quiet" }, "loss and", metric), sw.el("label", { class: "line quiet" }, "against", across))));
  const pair = curvesBox.appendChild(sw.el("div.pair"));
  const lossPlot = new sw.Plot(pair.appendChild(sw.el("div")), { height: 290, name: "Training loss of the chosen runs" });
  const metricPlot = new sw.Plot(pair.appendChild(sw.el("div")), { height: 290, legend: false, name: "Metric of the chosen runs" });
  sw.resultPlots = { loss: lossPlot, metric: metricPlot };
  const timelineBox = sw.el("section.panel", { hidden: true });
  const timelineTitle = sw.el("h2"), tools = sw.el("div.tools"), chart = sw.el("div");
  timelineBox.append(sw.el("div.panel-head", {}, sw.el("div", {}, timelineTitle), tools), chart);
  const gantt = new sw.Gantt(chart, { height: 480 });
  const cellBox = timelineBox.appendChild(sw.el("div.part", { hidden: true }, sw.el("h3", {}, "Map of the cell")));
  const map = sw.resultMap = new sw.CellMap(cellBox);
  tools.append(...gantt.buttons(), sw.el("button", { type: "button", onclick: () => sw.explore(optionsOf(timelineOf)) }, "Open in the explorer"));
  place.append(
    sw.el("section.panel", {}, sw.el("div.panel-head", {}, sw.el("div", {}, sw.el("h2", {}, "Runs"), note), sw.el("div.tools", {},
      sw.el("button", { type: "button", onclick: () => choose(visible().filter(isWhole).map(run => run.run)) }, "Choose all shown"),
      sw.el("button", { type: "button", onclick: () => choose([]) }, "Choose none"),
      sw.el("button", { type: "button", onclick: () => load() }, "Read again"))),
      sw.el("div.filters", {}, sw.el("label", {}, "Filter", search), picks), tableBox),
    answers, curvesBox, timelineBox);

  const text = value => value === null || value === undefined ? "" : Array.isArray(value) ? value.join(",") : String(value);
  const isWhole = run => run.status !== "damaged";
  const isMetric = key => key.startsWith(METRIC);
  const valueOf = (run, key) => key in run ? run[key] : isMetric(key) ? run.metrics[key.slice(METRIC.length)] : key in run.options ? run.options[key] : run.metrics[key];

  /** The runs that pass every word of the filter and every menu. */
  const visible = () => {
    const words = search.value.split(/\s+/).filter(Boolean);
    const menus = [...picks.querySelectorAll("select")].filter(menu => menu.value !== "*");
    const passes = run => words.every(word => {
      const match = word.match(/^([\w-]+)(<=|>=|!=|=|<|>)(.*)$/);
      if (!match) return [run.run, run.case, run.status].some(name => name.includes(word));
      const key = match[1].replaceAll("-", "_");
      return [run, run.options, run.metrics].some(table => key in table) && OPERATORS[match[2]](text(valueOf(run, key)), match[3]);
    }) && menus.every(menu => text(valueOf(run, menu.dataset.option)) === menu.value);
    const { key, down } = sorted;
    const order = (a, b) => typeof a === "number" && typeof b === "number" ? a - b : text(a).localeCompare(text(b), "en", { numeric: true });
    const compare = (a, b) => {
      const [x, y] = [valueOf(a, key), valueOf(b, key)];
      if (x === null || x === undefined) return 1;
      if (y === null || y === undefined) return -1;
      return (down ? -1 : 1) * order(x, y);
    };
    return listing.runs.filter(passes).sort(compare);
  };

  const hasCases = () => listing.runs.some(run => run.case);
  const columns = () => [["run", "run"], ...(hasCases() ? [["case", "case"]] : []), ["status", "status"], ...options(listing.varied.slice(0, USUAL)), ...figures(), ...options(listing.varied.slice(USUAL, 14))];
  const figures = () => {
    const names = [...new Set(listing.runs.flatMap(run => Object.keys(run.metrics)))].slice(0, MOST_METRICS);
    return [...LOSS, ...names.map(name => [METRIC + name, name.replaceAll("_", " ")]), ...COSTS];
  };
  const options = names => names.map(name => [name, name.replaceAll("_", " ")]);

  /** Whether a column has words, which stand at the left. */
  const isText = key => ["run", "case", "status"].includes(key) || listing.runs.some(run => typeof valueOf(run, key) === "string");

  const drawTable = () => {
    const runs = visible();
    const heading = ([key, label]) => {
      const on = sorted.key === key, sort = () => { sorted = { key, down: on && !sorted.down }; drawTable(); };
      return sw.el("th" + (isText(key) ? ".text" : ""), { "aria-sort": on ? (sorted.down ? "descending" : "ascending") : "none", scope: "col" },
        sw.el("button", { type: "button", "data-key": key, onclick: sort }, label + (on ? (sorted.down ? " ↓" : " ↑") : "")));
    };
    head.replaceChildren(sw.el("tr", {}, sw.el("th", {}, ""), ...columns().map(heading)));
    const cell = (run, [key]) => {
      const value = valueOf(run, key);
      if (key === "accuracy") return sw.el("td", {}, sw.percent(value, 2));
      if (key === "loss" || isMetric(key)) return sw.el("td", {}, sw.fourDigits(value ?? null));
      if (key === "seconds") return sw.el("td", {}, sw.number(value, 4));
      if (key === "run") return sw.el("td.text", {}, sw.el("button", { type: "button", title: "Show its timeline", onclick: () => openTimeline(run) }, value));
      return sw.el("td" + (isText(key) ? ".text" : ""), {}, typeof value === "number" && !["seed"].includes(key) ? sw.number(value, 5) : text(value) || "–");
    };
    const line = run => {
      const box = sw.el("input", { type: "checkbox", checked: chosen.has(run.run), disabled: !isWhole(run), "aria-label": "Choose " + run.run, onchange: () => {
        box.checked ? chosen.add(run.run) : chosen.delete(run.run);
        made.classList.toggle("chosen", box.checked);
        askCurves();
      } });
      const made = sw.el("tr" + (chosen.has(run.run) ? ".chosen" : ""), { "data-run": run.run }, sw.el("td", {}, box), ...columns().map(column => cell(run, column)));
      return made;
    };
    body.replaceChildren(...runs.slice(0, 1000).map(line));
    if (!runs.length) body.append(sw.el("tr", {}, sw.el("td.empty", { colspan: String(columns().length + 1) }, listing.runs.length ? "No run passes the filter." : `No runs yet. “Train this” in the explorer writes them to ${sw.boot.new_runs}.`)));
    const kinds = [sw.amount(listing.runs.length, "run"), listing.batches.length ? sw.amount(listing.batches.length, "batch").replace("batchs", "batches") : "", listing.recommendations.length ? sw.amount(listing.recommendations.length, "recommendation") : ""];
    note.textContent = `${listing.root}: ${kinds.filter(Boolean).join(", ")}${runs.length < listing.runs.length ? `; ${runs.length} shown` : ""}${listing.problems.length ? `; ${sw.amount(listing.problems.length, "problem")}: ${listing.problems.slice(0, 5).join("; ")}` : ""}`;
  };

  const drawMenus = () => {
    const names = [...(hasCases() ? ["case"] : []), ...listing.varied], runs = listing.runs.filter(isWhole);
    const menus = names.map(name => [name, [...new Set(runs.map(run => text(valueOf(run, name))))].sort((a, b) => a.localeCompare(b, "en", { numeric: true }))]);
    picks.replaceChildren(...menus.filter(([, values]) => values.length > 1 && values.length <= 30).slice(0, 8).map(([name, values]) => sw.el("label", {}, name.replaceAll("_", " "),
      sw.el("select", { "data-option": name, onchange: () => drawTable() }, sw.el("option", { value: "*" }, "all"), ...values.map(value => sw.el("option", { value }, value || "none"))))));
  };

  const drawAnswers = () => {
    answers.hidden = !listing.recommendations.length;
    answers.style.cssText = "display:grid;gap:16px";
    answers.replaceChildren(...listing.recommendations.map(found => {
      const rows = found.standings.slice(0, 12).map((one, i) => sw.el("tr", {}, ...[i + 1, one.schedule, one.group_size, one.delay, sw.whole(one.rounds), sw.number(one.mean_staleness, 3), one.diverged ? "diverged" : sw.number(one.metric, 4), sw.whole(one.trained_to_slot)].map((value, k) => sw.el("td" + (k === 1 ? ".text" : ""), {}, text(value)))));
      const answer = found.answer;
      const won = found.decided ? " Decided." : ` Not told from: ${found.choices.slice(1).join("; ")}.`;
      return sw.el("details.panel", {}, sw.el("summary", { style: "cursor:pointer" }, sw.el("b", {}, `Recommendation ${found.folder}: `), `${answer.schedule}, S = ${answer.group_size}, delay ${answer.delay}.${won}`),
        sw.el("div.table-box", {}, sw.el("table.narrow", {}, sw.el("thead", {}, sw.el("tr", {}, ...["", "schedule", "S", "delay", "rounds", "mean staleness", "metric", "trained to slot"].map(name => sw.el("th" + (name === "schedule" ? ".text" : ""), {}, name)))), sw.el("tbody", {}, ...rows))),
        ...found.cautions.map(caution => sw.el("p.quiet", { style: "margin-top:6px" }, caution)),
        found.train ? sw.el("p.quiet", { style: "margin-top:8px" }, "Train it: ", sw.el("code", {}, found.train)) : null);
    }));
  };

  const load = async () => {
    sw.begin();
    try {
      listing = await sw.computing([tableBox], sw.ask("api/runs"), "reading the runs…");
      delete tableBox.dataset.empty;
      const known = new Set(listing.runs.filter(isWhole).map(run => run.run));
      chosen = new Set([...chosen].filter(name => known.has(name)));
      drawMenus();
      drawTable();
      drawAnswers();
      if (!chosen.size) choose(telling());
      const first = body.querySelector("tr.chosen");  // those chosen at first may be far down
      if (first) tableBox.scrollTop = first.offsetTop - 2 * first.offsetHeight;
    } catch (error) { sw.trouble(error.message); } finally { sw.end(); }
  };

  /** All seeds of the best lines in the largest set that has the same data, devices and deadline; lines with a missing or
   *  unfinished seed only if there are no others. A seed that was trained twice counts once. */
  const telling = () => {
    const sets = {};
    const isEnded = run => ["finished", "reached"].includes(run.status) && run.loss !== null, ended = runs => runs.filter(isEnded);
    for (const run of visible().filter(isWhole)) {
      const lines = sets[["data", "data_folder", "devices", "deadline"].map(name => run.options[name])] ||= {}, seeds = lines[run.line] ||= {};
      if (!seeds[run.seeds] || !isEnded(seeds[run.seeds])) seeds[run.seeds] = run;
    }
    const linesOf = set => Object.values(set).map(seeds => Object.values(seeds));
    const count = set => ended(linesOf(set).flat()).length;
    const largest = Object.values(sets).sort((a, b) => count(b) - count(a))[0] || {};
    const lines = linesOf(largest).filter(runs => ended(runs).length);
    const most = Math.max(...lines.map(runs => runs.length));
    const complete = lines.filter(runs => ended(runs).length === most);
    const mean = runs => ended(runs).reduce((sum, run) => sum + run.loss, 0) / ended(runs).length;
    return (complete.length ? complete : lines).sort((a, b) => mean(a) - mean(b)).slice(0, CHOSEN_AT_FIRST).flat().map(run => run.run);
  };

  const choose = names => { chosen = new Set(names); drawTable(); askCurves(); };

  const askCurves = sw.latest(async () => {
    curvesBox.hidden = !chosen.size;
    if (!chosen.size) return;
    const powers = Object.entries(sw.form.given).filter(([name]) => sw.form.controls[name].description.section === "energy");
    const ask = up => sw.ask("api/curves", [...[...chosen].map(name => ["run", name]), ["across", across.value], ["up", up], ...powers]);
    try {
      offerSeconds();
      const boxes = [lossPlot.box, metricPlot.box], loss = await sw.computing(boxes, ask("loss"));
      offer(loss.metrics);
      const other = await sw.computing(boxes.slice(1), ask(metric.value));
      sw.trouble("");
      curvesNote.hidden = !loss.notices.length;
      curvesNote.textContent = loss.notices.join("; ");
      drawCurves(lossPlot, loss, { name: "training loss", log: true });
      drawCurves(metricPlot, other, metric.value === "accuracy" ? { name: "test accuracy (%)", low: 0, high: 100 } : { name: metric.value.replaceAll("_", " ") });
    } catch (error) { sw.trouble(error.parameter === "across" ? `Curves against ${AXES[across.value]}: the axis ${error.requirement}` : error.message); }
  });

  /** Offer the metrics of the chosen runs: the accuracy, and those of their tasks. */
  const offer = names => {
    const offered = names.length ? names : ["accuracy"], kept = offered.includes(metric.value) ? metric.value : offered[0];
    metric.replaceChildren(...offered.map(name => sw.el("option", { value: name }, name.replaceAll("_", " "))));
    metric.value = kept;
  };

  /** Offer seconds if all chosen runs say how long a slot is. */
  const offerSeconds = () => {
    const known = listing.runs.filter(run => chosen.has(run.run)).every(run => run.slot_seconds !== null) || "slot_seconds" in sw.form.given;
    const option = across.querySelector("[value=seconds]");
    option.disabled = !known;
    option.title = known ? "" : "Not all chosen runs say how long a slot is";
    if (!known && across.value === "seconds") across.value = "slot";
  };

  /** How many runs a line has, in brackets; nothing for one. */
  const amount = ({ runs, seeds }) => runs.length === 1 ? "" : runs.length === seeds ? ` (${seeds} seeds)` : ` (${runs.length} runs, ${sw.amount(seeds, "seed")})`;

  const drawCurves = (plot, found, y) => {
    const lines = found.lines.map(line => ({
      label: (line.label || line.runs[0]) + amount(line), colours: line.colours,
      dash: sw.boot.dashes[line.dash], points: line.places.map((place, k) => [place, line.mean[k]]),
      band: line.runs.length > 1 ? line.places.map((place, k) => [place, line.low[k], line.high[k]]) : [],
    }));
    plot.draw({ lines, x: { name: AXIS_NAMES[across.value], low: 0 }, y });
  };

  const openTimeline = async run => {
    timelineOf = run;
    timelineBox.hidden = false;
    const source = wanted => sw.ask("api/part", { run: run.run, ...wanted });
    sw.begin();
    try {
      const part = await sw.computing([gantt.place], source({ from: 0, to: 400, first_device: 1, last_device: 200 }));
      timelineTitle.textContent = `Timeline of ${run.run}${run.live ? ", as measured" : ""}`;
      gantt.show(part.frame, source, part, run.slot_seconds);
      const cell = run.options.radio_link ? await sw.ask("api/cell", { run: run.run }) : null;
      cellBox.hidden = !cell;
      if (cell) map.show(cell, run.slot_seconds);
      timelineBox.scrollIntoView({ block: "nearest" });
    } catch (error) { timelineBox.hidden = true; sw.trouble(error.message); } finally { sw.end(); }
  };
  sw.resultGantt = gantt;

  /** The options of a run that the explorer has controls for. */
  const optionsOf = run => {
    const given = {};
    for (const control of Object.values(sw.form.controls)) {
      const value = run.options[control.name];
      if (value !== undefined && value !== null && text(value) !== control.usual) given[control.name] = text(value);
    }
    return given;
  };

  sw.results = { open: () => { if (!loaded) { loaded = true; load(); } }, load, get chosen() { return chosen; }, get listing() { return listing; } };
}
