"use strict";
/* The Gantt chart alone, with all its bars in the page. */
{
  const { frame, part, title, note } = sw.boot;
  document.getElementById("title").textContent = title;
  document.getElementById("note").textContent = note;
  const gantt = sw.gantt = new sw.Gantt(document.getElementById("gantt"), { height: Math.max(320, innerHeight - 130) });
  document.getElementById("tools").append(...gantt.buttons());
  gantt.show(frame, () => Promise.resolve(part), part);
}
