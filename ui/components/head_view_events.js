// What pointer and keyboard do in a head view.

import { chose } from "./choices.js";
import { nearest, ROW } from "./lines.js";
import { token } from "./tokens.js";

const SETTLED = 250; // milliseconds without another click before Python hears which heads are on

/** Listen on the view's elements; returns what its chips do. */
export function listen(view) {
  const { sheet, root, choices } = view;
  sheet.onpointerover = (event) => {
    const place = event.pointerType === "touch" ? null : placeOf(event.target);
    if (place) hover(view, place);
  };
  sheet.onpointerout = (event) => {
    if (placeOf(event.target)) hover(view, null);
  };
  sheet.onpointermove = (event) => point(view, placeOf(event.target) ? null : lineAt(view, event));
  sheet.onpointerleave = () => point(view, null);
  sheet.onclick = (event) => {
    const place = placeOf(event.target);
    if (place) press(view, place);
    else if (view.pointed || event.pointerType === "touch") pickLine(view, lineAt(view, event));
  };
  sheet.addEventListener("focusin", (event) => {
    const place = placeOf(event.target);
    if (!place) return;
    choices.current[place.side] = place.index;
    if (event.target.matches(":focus-visible")) hover(view, place);
  });
  sheet.addEventListener("focusout", () => hover(view, null));
  root.onkeydown = (event) => {
    const place = placeOf(event.target);
    if (event.key === "Escape" && choices.locked) release(view);
    else if (place && (event.key === "Enter" || event.key === " ")) press(view, place);
    else if (!place || !move(view, place, event.key)) return;
    event.preventDefault();
  };
  return { chips: chipActions(view) };
}

/** The token that an element belongs to, as {side, index}; null for anything else. */
function placeOf(target) {
  const found = target.closest?.(".token");
  return found ? { side: found.dataset.side, index: Number(found.dataset.index) } : null;
}

function hover(view, place) {
  view.choices.hovered = place;
  view.draw();
}

function point(view, line) {
  const same = view.pointed?.head === line?.head && view.pointed?.query === line?.query && view.pointed?.key === line?.key;
  if (same) return;
  view.pointed = line;
  view.sheet.classList.toggle("pointing", Boolean(line));
  view.draw();
}

function lineAt(view, event) {
  if (!view.measures) return null;
  const box = view.sheet.getBoundingClientRect();
  return nearest([...view.nan, ...view.lines], event.clientX - box.left, event.clientY - box.top, view.measures);
}

/** A click or Enter on a token: lock it, release it, or, across from the locked one, select the pair. */
function press(view, place) {
  const { locked } = view.choices;
  if (locked && locked.side !== place.side) {
    const [query, key] = place.side === "query" ? [place.index, locked.index] : [locked.index, place.index];
    pickPair(view, query, key);
  } else if (locked && locked.index === place.index) {
    release(view);
  } else {
    chose(view.choices, "locked", place);
    view.send("token", place);
    view.draw();
  }
}

function release(view) {
  chose(view.choices, "locked", null);
  view.send("released", true);
  view.draw();
}

function pickLine(view, line) {
  if (line) pickPair(view, line.query, line.key);
}

function pickPair(view, query, key) {
  chose(view.choices, "pair", [query, key]);
  view.send("pair", { query, key });
  view.draw();
}

/** Arrow keys: up and down within a column, left and right across; Home and End to its ends. */
function move(view, place, key) {
  const counts = { query: view.header.shape[1], key: view.header.shape[2] };
  const side = { ArrowLeft: "query", ArrowRight: "key" }[key] ?? place.side;
  const last = counts[side] - 1;
  const index = {
    ArrowUp: place.index - 1,
    ArrowDown: place.index + 1,
    ArrowLeft: place.index,
    ArrowRight: place.index,
    Home: 0,
    End: last,
  }[key];
  if (index === undefined) return false;
  focusToken(view, side, Math.min(Math.max(index, 0), last));
  return true;
}

function focusToken(view, side, index) {
  const { scroller } = view;
  if (index * ROW < scroller.scrollTop) scroller.scrollTop = index * ROW;
  const below = (index + 1) * ROW - scroller.clientHeight;
  if (below > scroller.scrollTop) scroller.scrollTop = below;
  const made = token(view.columns[side], index);
  made.tabIndex = 0;
  made.focus(); // scrolls the window too, where the view is taller than it
}

function chipActions(view) {
  const { choices } = view;
  let settled = 0;
  const change = (active) => {
    choices.previewed = null;
    choices.active = active;
    clearTimeout(settled);
    settled = setTimeout(() => {
      chose(choices, "active", choices.active);
      view.send("heads", choices.active);
    }, SETTLED);
    view.draw();
  };
  const all = () => view.header.heads.map((_, head) => head);
  return {
    toggle: (head) => change(all().filter((other) => choices.active.includes(other) !== (other === head))),
    isolate: (head) => change(choices.active.length === 1 && choices.active[0] === head ? all() : [head]),
    preview: (head) => {
      choices.previewed = head;
      view.draw();
    },
  };
}
