"use strict";
/* The access schemes side by side: figures of each, and what its channel carries in the same slots. */
{
  const HIGH = 100;  // of a channel, in units of its picture
  const TITLES = { tdma: "one at a time", ofdma: "a group on blocks of its own", noma: "a group on the whole band", "over-the-air": "a group, analog" };
  const place = document.getElementById("schemes");
  let last = null;

  /** Draw what a channel carries; a device has a lane, and a broadcast all of them unless it has a band of its own. */
  const picture = (channel, [first, end]) => {
    const wide = end - first, high = HIGH / channel.lanes;
    const drawn = sw.svg("svg", { viewBox: `0 0 ${wide} ${HIGH}`, preserveAspectRatio: "none", "aria-hidden": "true" });
    for (const i of channel.device.keys()) {
      const all = channel.lane[i] < 0, left = Math.max(channel.start[i], first) - first, right = Math.min(channel.end[i], end) - first;
      const look = Object.values(sw.activity).find(known => known.kind === channel.kind[i]);
      const name = channel.device[i] ? `device ${channel.device[i]}` : "broadcast";
      drawn.append(sw.svg("rect", { x: left, width: Math.max(0, right - left), y: all ? 0 : channel.lane[i] * high, height: all ? HIGH : high, fill: sw.tone(look.colours), "data-name": name }));
    }
    return drawn;
  };

  const scheme = (name, found, slots, chosen, choose) => {
    const made = sw.el("div.scheme", { role: "radio", tabindex: chosen ? "0" : "-1", "aria-checked": String(chosen), "data-access": name, onclick: choose,
      onkeydown: event => {
        if (event.key === " " || event.key === "Enter") { event.preventDefault(); choose(); }
        const next = { ArrowDown: "nextSibling", ArrowUp: "previousSibling" }[event.key];
        if (next && made[next]?.dataset.access) { event.preventDefault(); made[next].focus(); made[next].click(); }
      } }, sw.el("h3", {}, name, sw.el("small", {}, TITLES[name] || "")));
    if (!found) { made.append(sw.el("p.quiet", {}, "Not with these options, or no round ends by the deadline.")); return made; }
    const facts = [["rounds", sw.whole(found.rounds), "rounds"], ["a round", sw.duration(found.round_seconds, 3), "round_seconds"],
      ["an uplink", sw.number(found.uplink_slots, 3) + (found.uplink_slots === 1 ? " slot" : " slots"), "uplink_slots"], ["staleness", sw.number(found.mean_staleness, 3), "mean_staleness"], ["lost", sw.whole(found.lost), "lost"]];
    made.append(sw.el("dl.facts", {}, ...facts.flatMap(([term, value, key]) => [sw.el("dt", {}, term), sw.el("dd", { "data-figure": key }, value)])), picture(found.channel, slots));
    return made;
  };

  const legend = () => sw.el("div.shares", {}, ...[["sending", "uplink"], ["lost", "lost uplink"], ["receiving", "broadcast"]].map(([kind, text]) =>
    sw.el("span", {}, sw.el("i", { style: `background:${sw.tone(sw.activity[kind].colours)}` }), text)));

  sw.showSchemes = (found, view, choose) => {
    last = [found, view, choose];
    const [first, end] = found.slots, focused = document.activeElement?.dataset?.access;
    document.getElementById("access-note").textContent = `${view.chosen} under each scheme. The channel in slots ${sw.whole(first)} to ${sw.whole(end)}: uplinks sent at once are drawn side by side, one below the other.`;
    place.replaceChildren(...Object.entries(found.schemes).map(([name, one]) => scheme(name, one, found.slots, found.chosen === name, () => choose(name))), legend());
    if (focused) place.querySelector(`[data-access="${focused}"]`)?.focus();
  };
  sw.redraws.add(() => { if (last) sw.showSchemes(...last); });
}
