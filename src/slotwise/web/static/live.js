"use strict";
/* The page of a live run: every event is the whole state, drawn anew. Read-only. */
{
  const byId = id => document.getElementById(id);
  const STATES = { computing: ["computing", "computing"], ready: ["waiting-for-channel", "ready to send"], sending: ["sending", "sending"],
    waiting: ["waiting-for-model", "waiting for a model"], absent: ["away", "absent"], excluded: ["lost", "excluded"] };
  const CARRIED = { sending: "uplink", lost: "lost uplink", receiving: "broadcast" };
  const MOST_DEVICES = 600;  // in the page
  const tone = state => sw.tone(sw.activity[STATES[state][0]].colours);
  const lossPlot = new sw.Plot(byId("plot-loss"), { legend: false, name: "Training loss against slots" });
  const accuracyPlot = new sw.Plot(byId("plot-accuracy"), { legend: false, name: "Test accuracy against slots" });
  let live = null;

  const ago = seconds => seconds === undefined ? "never heard" : seconds < 1.5 ? "now" : seconds < 90 ? `${Math.round(seconds)} s ago` : seconds < 5400 ? `${Math.round(seconds / 60)} min ago` : `${Math.round(seconds / 3600)} h ago`;
  const time = seconds => seconds < 120 ? sw.number(seconds, 3) + " s" : seconds < 7200 ? sw.number(seconds / 60, 3) + " min" : sw.number(seconds / 3600, 3) + " h";

  const drawTiles = ({ status, points, rates, overdue }) => {
    const last = points.at(-1);
    const tiles = [
      ["round", `${sw.whole(status.round)} / ${sw.whole(status.rounds)}`, "rounds"], ["slot", sw.whole(status.slot), "slot"],
      ["connected", `${sw.whole(status.connected)} / ${sw.whole(status.devices.length)}`, "connected"],
      ["updates", sw.whole(status.updates), "updates applied"], ["lost", sw.whole(status.lost), "uplinks lost"],
      ["loss", last ? sw.loss(last[2]) : "–", "training loss"], ["accuracy", last && last[3] !== null ? sw.percent(last[3], 1) : "–", "test accuracy"],
      ["rate", rates ? sw.number(rates[0], 3) : "–", "rounds / min"], ["update-rate", rates ? sw.number(rates[1], 3) : "–", "updates / min"],
      ["late", sw.whole(overdue.length), "late now"], ["excluded", sw.whole(status.excluded), "excluded"], ["seconds", time(status.seconds), "run time"],
    ];
    byId("tiles").replaceChildren(...tiles.map(([key, value, label]) => sw.el("div.tile", {}, sw.el("b", { "data-figure": key }, value), sw.el("span.quiet", {}, label))));
  };

  const drawDevices = ({ status, heard, overdue, rejected_by: rejected }) => {
    const late = new Set(overdue), order = { excluded: 0, absent: 1 };
    const urgent = device => order[device.state] ?? (late.has(device.device) ? 2 : 3);
    // Of very many devices, those in trouble come first.
    const many = status.devices.length > MOST_DEVICES;
    const shown = many ? [...status.devices].sort((a, b) => urgent(a) - urgent(b) || a.device - b.device).slice(0, MOST_DEVICES) : status.devices;
    // What the device says about itself is only text.
    const told = report => [
      report.slotwise || report.memory_mb ? sw.el("div.quiet", {}, report.slotwise, sw.el("span", {}, report.memory_mb ? `${sw.number(report.memory_mb, 3)} MB` : "")) : null,
      report.error ? sw.el("div.quiet", { title: report.error, style: "overflow:hidden;text-overflow:ellipsis;white-space:nowrap" }, report.error) : null];
    const line = device => {
      const off = device.state === "absent" || device.state === "excluded";
      const state = device.state === "waiting" ? "waiting" : device.state === "excluded" && device.excluded_for ? `excluded for ${time(device.excluded_for)}` : STATES[device.state][1];
      const model = device.version === null ? "" : ` on w${device.version}`;
      return sw.el("div.device" + (off ? ".off" : ""), { "data-device": device.device, "data-state": device.state, style: `--tone:${tone(device.state)}` },
        sw.el("b", {}, `${device.device}`, late.has(device.device) ? sw.el("span.tag.bad", { style: "float:right" }, "late") : null),
        sw.el("div", {}, (device.state === "computing" ? "computing" + model : state)),
        sw.el("div.quiet", {}, sw.amount(device.updates, "update"), sw.el("span", {}, ago(heard[device.device]))),
        rejected[device.device] ? sw.el("div.quiet", {}, `${sw.whole(rejected[device.device])} rejected`) : null, ...told(device.report));
    };
    byId("fleet").replaceChildren(...shown.map(line));
    const counts = {};
    for (const device of status.devices) counts[device.state] = (counts[device.state] || 0) + 1;
    byId("device-note").textContent = many ? `${sw.whole(status.devices.length)} devices; the ${MOST_DEVICES} that need attention most` : "";
    byId("states").replaceChildren(...Object.entries(STATES).map(([state, [, title]]) => sw.el("li", {}, sw.el("i", { style: `height:12px;background:${tone(state)}` }), `${title} ${sw.whole(counts[state] || 0)}`)));
  };

  const SIDE = 74, AXIS = 18, ROW = 30;
  const drawChannel = ({ window: [first, end], planned, carried, status }) => {
    const canvas = byId("channel"), ratio = devicePixelRatio || 1, width = canvas.parentElement.clientWidth - 28, height = AXIS + 2 * ROW + 10;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.style.cssText = `width:${width}px;height:${height}px;display:block`;
    const pen = canvas.getContext("2d"), slot = (width - SIDE) / (end - first), x = value => SIDE + (value - first) * slot;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    const step = Math.max(1, [1, 2, 5, 10, 20, 50, 100].find(value => value * slot >= 60) || 100);
    pen.fillStyle = sw.css("quiet");
    for (let tick = Math.ceil(first / step) * step; tick < end; tick += step) {
      pen.fillRect(x(tick), 4, 1, AXIS - 7);
      pen.fillText(tick.toLocaleString("en-US"), x(tick) + 4, AXIS / 2);
    }
    const rows = [["planned", planned, AXIS, 0.55], ["measured", carried, AXIS + ROW + 6, 1]];
    for (const [name, columns, top, alpha] of rows) {
      pen.globalAlpha = 1;
      pen.fillStyle = sw.css("free");
      pen.fillRect(SIDE, top, width - SIDE, ROW);
      pen.fillStyle = sw.css("text");
      pen.fillText(name, 2, top + ROW / 2);
      for (let i = 0; i < columns.start.length; i++) {
        if (columns.end[i] <= first || columns.start[i] >= end) continue;
        const left = Math.max(SIDE, x(columns.start[i])), wide = Math.min(width, x(columns.end[i])) - left, look = sw.activity[columns.kind[i]];
        pen.globalAlpha = alpha;
        pen.fillStyle = sw.tone(look.colours);
        pen.fillRect(left, top + ROW * (1 - look.thickness) / 2, Math.max(0.7, wide - (slot > 4 ? 0.8 : 0)), ROW * look.thickness);
        const label = columns.device[i] === 0 ? "w" + columns.version[i] : String(columns.device[i]);
        pen.globalAlpha = 1;
        if (wide > label.length * 7 + 4) {
          pen.fillStyle = sw.tone(look.inks);
          pen.textAlign = "center";
          pen.fillText(label, left + wide / 2, top + ROW / 2 + 0.5);
          pen.textAlign = "left";
        }
      }
    }
    pen.globalAlpha = 1;
    pen.fillStyle = sw.css("bad");
    pen.fillRect(Math.min(width - 1, x(status.slot)), AXIS - 3, 1.5, 2 * ROW + 12);
    canvas.setAttribute("aria-label", `Channel: slots ${first} to ${end}, now ${status.slot}`);
  };

  const drawCurves = ({ points, schedule, colours }) => {
    const line = column => [{ label: schedule, colours, points: points.map(point => [point[0], point[column] === null ? null : column === 3 ? 100 * point[column] : point[column]]) }];
    const losses = points.map(point => point[2]).filter(value => value > 0), log = losses.length > 1 && Math.max(...losses) / Math.min(...losses) > 12;
    lossPlot.draw({ lines: line(2), x: { name: "slot", low: 0 }, y: { name: "training loss", log, ...(log ? {} : { low: 0 }) } });
    accuracyPlot.draw({ lines: line(3), x: { name: "slot", low: 0 }, y: { name: "test accuracy (%)", low: 0, high: 100 } });
  };

  const table = (headings, rows) => sw.el("div.table-box", {}, sw.el("table", {}, sw.el("thead", {}, sw.el("tr", {}, ...headings.map((name, i) => sw.el(i ? "th.text" : "th", {}, name)))),
    sw.el("tbody", {}, ...rows.map(row => sw.el("tr", {}, ...row.map((value, i) => sw.el(i ? "td.text" : "td", {}, value)))))));

  const drawRejected = ({ status, rejections }) => {
    const reasons = Object.entries(status.rejected).sort((a, b) => b[1] - a[1]);
    byId("rejected").replaceChildren(...(reasons.length ? [table(["messages", "reason"], reasons.map(([reason, count]) => [sw.whole(count), reason])),
      table(["time", "device", "reason"], [...rejections].reverse().map(([moment, device, reason]) => [moment, device === null ? "unknown" : String(device), reason]))]
      : [sw.el("p.quiet", { style: "margin-top:6px" }, "None so far.")]));
  };

  const drawCampaign = ({ campaign }) => {
    byId("campaign").hidden = !campaign;
    if (!campaign) return;
    const next = campaign.waits_until ? `next: ${campaign.plan}, at ${campaign.waits_until}` : `run ${campaign.number}: ${campaign.plan}`;
    byId("campaign-now").textContent = campaign.refused ? `The next plan is refused: ${campaign.refused}` : next;
    byId("campaign-now").classList.toggle("bad", Boolean(campaign.refused));
    const rows = campaign.ended.map(run => [String(run.number), run.plan, run.began.replace("T", " ").slice(0, 16), run.status, sw.whole(run.rounds),
      run.loss === null ? "–" : sw.loss(run.loss), run.accuracy === null ? "–" : sw.percent(run.accuracy, 1)]);
    byId("campaign-runs").replaceChildren(...(rows.length ? [table(["run", "plan", "began (UTC)", "status", "rounds", "training loss", "test accuracy"], rows)] : []));
  };

  const draw = () => {
    if (!live) return;
    const { status } = live;
    byId("phase").textContent = status.phase;
    byId("phase").classList.toggle("bad", ["diverged", "interrupted"].includes(status.phase));
    byId("run").textContent = `run ${status.run}`;
    document.title = `${status.round}/${status.rounds} ${status.phase} – slotwise live`;
    byId("carries").replaceChildren(...Object.entries(CARRIED).map(([kind, title]) => sw.el("li", {}, sw.el("i", { style: `height:${12 * sw.activity[kind].thickness}px;background:${sw.tone(sw.activity[kind].colours)}` }), title)));
    for (const part of [drawCampaign, drawTiles, drawDevices, drawChannel, drawCurves, drawRejected]) part(live);
    document.body.dataset.drawn = String(Number(document.body.dataset.drawn || 0) + 1);
  };

  const stream = new EventSource("events");
  stream.onmessage = event => {
    live = JSON.parse(event.data);
    sw.live = live;
    sw.trouble("");
    if (live) requestAnimationFrame(draw); else byId("phase").textContent = "starting";
  };
  stream.onerror = () => {
    const over = live && !["waiting for devices", "running"].includes(live.status.phase);
    sw.trouble(over ? "The run has ended, and with it its server; this is its last state." : "The server does not answer; trying again.");
    if (over) stream.close();
  };
  sw.redraws.add(draw);
  addEventListener("resize", draw);
}
