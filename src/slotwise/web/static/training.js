"use strict";
/* "Train this": start a real run of what is shown, follow its curve beside the plan, stop it. */
{
  const place = document.getElementById("training");
  const form = new sw.Form(["training"], () => {});
  const button = sw.el("button.main", { type: "button", id: "train", onclick: () => start() }, "Train this");
  const fields = sw.el("div.fields", {}, ...form.of("training").map(control => control.box), button);
  const wrong = sw.el("p.wrong", { role: "alert", style: "color:var(--bad)" });
  const list = sw.el("div.runs");
  const plots = sw.el("div.trio", { hidden: true });
  const more = sw.el("details.more", {}, sw.el("summary", {}, "Options of the training"), fields);
  place.append(
    sw.el("div.panel-head", {}, sw.el("div", {}, sw.el("h2", { id: "training-title" }, "Train along this schedule"),
      sw.el("p.quiet", {}, `A real run in the background; it leaves an ordinary run folder in ${sw.boot.new_runs}.`)), sw.el("div.tools", {}, button)),
    more, wrong, list, plots);
  const box = () => plots.appendChild(sw.el("div"));
  const loss = new sw.Plot(box(), { name: "Training loss against slots" });
  const accuracy = new sw.Plot(box(), { name: "Test accuracy against slots" });
  const rounds = new sw.Plot(box(), { name: "Rounds, planned and done" });
  form.show();
  let trainings = [], deadline = 0;

  const start = async () => {
    button.disabled = true;
    wrong.textContent = "";
    const plan = Object.fromEntries(Object.entries(sw.form.given).filter(([name]) => sw.form.controls[name].description.section !== "energy"));
    try { await sw.post("api/training", { ...plan, ...form.given }); } catch (error) {
      if (!form.error(error.parameter, error.message)) wrong.textContent = error.message;
      else more.open = true;
      button.disabled = false;
    }
  };

  /** Colours of a training: those of its schedule. */
  const colours = training => sw.boot.schedules[training.options.schedule];
  /** Dashes of a training: none for the oldest of its schedule, then others. */
  const dash = training => {
    const older = trainings.filter(one => one.options.schedule === training.options.schedule && one.number < training.number);
    return sw.boot.dashes[older.length % sw.boot.dashes.length];
  };
  const over = training => ["finished", "reached", "interrupted", "diverged", "refused", "failed"].includes(training.status);

  const row = training => {
    const last = training.points.at(-1), options = training.options;
    const delay = options.delay !== undefined && options.delay !== "auto" ? `, delay ${options.delay}` : "";
    const figures = last ? `loss ${sw.number(last[2], 4)}${last[3] === null ? "" : ", accuracy " + sw.percent(last[3], 1)}` : "";
    return sw.el("div.run-line", { "data-status": training.status, "data-number": training.number },
      sw.el("span.dot", { style: `background:${sw.tone(colours(training))}` }),
      sw.el("b", {}, `${options.schedule}, S=${options.group_size}${delay}`),
      sw.el("span.tag" + (["diverged", "refused", "failed"].includes(training.status) ? ".bad" : ""), {}, training.status),
      over(training) ? null : sw.el("progress", { max: training.rounds || 1, value: training.round, "aria-label": "rounds done" }),
      sw.el("span", {}, training.rounds ? `round ${sw.whole(training.round)} of ${sw.whole(training.rounds)}` : ""), sw.el("span", {}, figures),
      over(training) ? null : sw.el("button", { type: "button", class: "stop", onclick: event => { event.target.disabled = true; sw.post("api/training/stop").catch(error => { wrong.textContent = error.message; }); } }, "Stop"),
      sw.el("span.quiet", {}, training.message || training.folder));
  };

  const draw = () => {
    button.disabled = trainings.some(training => !over(training));
    list.replaceChildren(...trainings.map(row));
    const drawn = trainings.filter(training => training.points.length);
    plots.hidden = !drawn.length;
    const line = (training, column) => ({ label: `${training.options.schedule}, S=${training.options.group_size} (${training.number})`, colours: colours(training), dash: dash(training), points: training.points.map(point => [point[0], point[column]]) });
    const end = Math.max(deadline, ...drawn.map(training => training.planned.at(-1)[0]));
    const x = { name: "slot", low: 0, high: end };
    const losses = drawn.flatMap(training => training.points.map(point => point[2])).filter(value => value > 0);
    const log = losses.length > 0 && Math.max(...losses) / Math.min(...losses) > 12;
    loss.draw({ lines: drawn.map(training => line(training, 2)), x, y: { name: "training loss", log, ...(log ? {} : { low: 0 }) } });
    accuracy.draw({ lines: drawn.map(training => { const made = line(training, 3); return { ...made, points: made.points.map(([a, b]) => [a, b === null ? null : 100 * b]) }; }), x, y: { name: "test accuracy (%)", low: 0, high: 100 } });
    const newest = drawn.slice(0, 3);
    rounds.draw({ lines: newest.flatMap(training => {
      const name = line(training, 1);
      const done = training.points.map(point => [point[0], point[1]]);
      return [{ ...name, label: `planned (${training.number})`, points: training.planned, dash: "3 4", width: 1.5 }, { ...name, label: `done (${training.number})`, points: done }];
    }), x, y: { name: "rounds", low: 0 } });
  };

  sw.training = { planned: view => { deadline = view.options.deadline; }, get all() { return trainings; } };
  const stream = new EventSource("api/training/events");
  stream.onmessage = event => { trainings = JSON.parse(event.data); draw(); };
  sw.redraws.add(draw);
}
