// Where everything of the map stands, in CSS pixels, y downwards: computed from the rows alone, so that tests can.

/**
 * @typedef {object} RowHeader
 * @property {string} name
 * @property {number} layer
 * @property {number[]} boxes
 * @property {number[]} before
 * @property {number[]} after
 * @property {number[]} sums
 * @property {boolean} slim
 * @property {boolean} crosses
 * @property {boolean} feeds whether the next tower reads what it gives
 * @property {{ shape: [number, number, number], queries: number, keys: number }} [heads]
 */

/**
 * @typedef {{ title: string, reads: number, words: string[], attached: boolean[], stepped: boolean,
 *   rows: RowHeader[] }} TowerHeader
 * @typedef {{ text: string, index: number, x: number, y: number, width: number }} PlacedWord
 * @typedef {{ part: number, x: number, width: number }} PlacedBox
 * @typedef {{ side: number, gap: number, x: number, y: number, lines: number, across: number, each: number,
 *   tall: number }} Grid
 */

/**
 * `read` is where a sub-layer takes its input from the stream, `merge` where its output comes back.
 * @typedef {object} PlacedRow
 * @property {RowHeader} row
 * @property {number} y
 * @property {number} height
 * @property {PlacedBox[]} boxes
 * @property {number} read
 * @property {number} merge
 * @property {Grid | null} grid
 */

/** @typedef {{ layer: number, y: number, height: number, slim: boolean }} Frame */

/**
 * @typedef {object} PlacedTower
 * @property {number} x
 * @property {number} width
 * @property {boolean} mirrored whether the stream is on the right
 * @property {number} stream the outer edge of the stream
 * @property {number} top
 * @property {number} bottom
 * @property {PlacedRow[]} rows
 * @property {Frame[]} frames
 * @property {PlacedWord[]} words
 * @property {number} wordsTop
 */

export const STREAM = 15; // the stream's whole width
const SIDE = 34; // from a tower's edge to its boxes
const GAP = 4;
const LAYER_GAP = 8;
const ATTENTION = 33;
const BOX = 20;
const SLIM = 11;
const LINE = 19;
const MOST_LINES = 3;
const TOWER_TITLE = 14;
const PAD = 3.5; // beside a word
const TITLE = 100; // left to an attention's title beside its thumbnails
export const NEXT_LINE = 15;
export const BETWEEN = 56; // between two towers beside each other
export const NARROW = 620; // CSS pixels below which towers stand one above the other
const WIDEST = 460;

/**
 * @param {{ towers: TowerHeader[], steps: { labels: string[], attached: boolean[], next: unknown[][],
 *   written: boolean } }} header
 * @param {number} wide
 * @param {(text: string) => number} measure a word's width
 * @param {number} step
 * @param {number} source the word that the first of two towers speaks of
 * @param {boolean} isAside whether a single tower stands at the left, since a panel covers the right
 */
export function layoutOf({ towers, steps }, wide, measure, step, source = -1, isAside = false) {
  const two = towers.length === 2;
  const stacked = two && wide < NARROW;
  const beside = two && !stacked;
  const width = beside ? Math.min((wide - BETWEEN) / 2, WIDEST) : Math.min(isAside ? wide / 2 : wide, WIDEST + 60);
  const left = isAside && !beside ? 0 : (wide - (beside ? 2 * width + BETWEEN : width)) / 2;
  const placed = towers.map((tower, number) => {
    const x = left + (beside ? number * (width + BETWEEN) : 0);
    return placeTower(tower, x, width, beside && number === 1, measure, tower.stepped ? step : source);
  });
  const written = steps.written ? wordsOf(steps.labels, steps.attached, placed[placed.length - 1], measure, step) : [];
  const writtenTall = written.length ? LINE * (1 + Math.max(...written.map(({ y }) => y))) + 6 : 0;
  const lines = Math.max(0, ...steps.next.map((row) => row.length));
  const nextTall = lines ? lines * NEXT_LINE + 22 : 0;
  const heights = placed.map(({ top, bottom }) => bottom - top);
  const above = writtenTall + nextTall + 10 + TOWER_TITLE;
  const last = placed.length - 1;
  const height = stacked
    ? heights[0] + heights[1] + above + 24
    : Math.max(...heights.map((tall, number) => tall + (number === last ? above : 0)));
  placed.forEach((tower, number) => {
    const down = stacked && number === 1 ? height - heights[0] - 24 - tower.bottom : height - tower.bottom;
    shift(tower, down);
  });
  const end = placed[last];
  const nextTop = end.top - 10 - TOWER_TITLE - nextTall;
  for (const word of written) word.y = nextTop - writtenTall + LINE * (word.y + 0.5) + 2;
  const free = beside ? placed[0].top - 30 : 0;
  const natural = two ? 2 * WIDEST + BETWEEN : WIDEST + 60;
  const next = { x: end.x, y: nextTop, width: end.width, lines };
  return { wide, height, stacked, beside, natural, free, towers: placed, written, next };
}

/** @typedef {ReturnType<typeof layoutOf>} Layout */

/**
 * A tower whose lowest words end at its `bottom`, counted from 0 for now.
 * @param {TowerHeader} tower
 * @param {number} x
 * @param {number} width
 * @param {boolean} mirrored
 * @param {(text: string) => number} measure
 * @param {number} step
 * @returns {PlacedTower}
 */
function placeTower(tower, x, width, mirrored, measure, step) {
  const made = {
    x, width, mirrored, stream: mirrored ? x + width - 4 : x + 4, top: 0, bottom: 0, wordsTop: 0,
    rows: /** @type {PlacedRow[]} */ ([]), frames: /** @type {Frame[]} */ ([]), words: /** @type {PlacedWord[]} */ ([]),
  };
  made.words = wordsOf(tower.words, tower.attached, made, measure, step);
  const lines = 1 + Math.max(-1, ...made.words.map(({ y }) => y));
  made.wordsTop = -lines * LINE - 4;
  for (const word of made.words) word.y = made.wordsTop + LINE * (word.y + 0.5) + 4;
  let y = made.wordsTop - 8;
  let before = -2;
  const inner = mirrored ? x : x + SIDE;
  for (const row of tower.rows) {
    const changes = before !== -2 && row.layer !== before;
    if (changes) y -= row.slim && before >= 0 ? 2 : LAYER_GAP;
    else if (before !== -2) y -= GAP;
    const grid = row.heads && !row.slim ? gridOf(row.heads.shape, width - SIDE) : null;
    const height = row.slim ? SLIM : grid ? Math.max(ATTENTION, grid.tall + 6) : BOX;
    const top = y - height;
    const share = (width - SIDE - GAP * (row.boxes.length - 1)) / row.boxes.length;
    const boxes = row.slim
      ? [{ part: row.boxes[0], x: inner, width: width - SIDE }]
      : row.boxes.map((part, place) => ({ part, x: inner + place * (share + GAP), width: share }));
    if (grid) {
      grid.x = inner + width - SIDE - grid.x - 5;
      grid.y = top + (height - grid.tall) / 2;
    }
    made.rows.push({ row, y: top, height, boxes, grid, read: y, merge: top });
    const frame = made.frames.at(-1);
    if (row.layer >= 0 && frame && frame.layer === row.layer) {
      frame.height += frame.y - top;
      frame.y = top;
    } else if (row.layer >= 0) made.frames.push({ layer: row.layer, y: top, height, slim: row.slim });
    y = top;
    before = row.layer;
  }
  made.top = y - 4;
  return made;
}

/**
 * Thumbnails beside the title, in one line or more; `x` is the width that they take until the box is placed.
 * @param {[number, number, number]} shape
 * @param {number} width
 * @returns {Grid}
 */
function gridOf([heads, rows, columns], width) {
  const room = Math.max(width - TITLE, width / 2);
  const aspect = Math.min(Math.max(rows / Math.max(columns, 1), 0.5), 1.5);
  const gap = heads > 16 ? 2 : 4;
  let best = { side: 0, lines: 1, across: heads };
  for (let lines = 1; lines <= 4; lines++) {
    const across = Math.ceil(heads / lines);
    const tallest = lines === 1 ? 27 : (48 - gap * (lines - 1)) / lines;
    const side = Math.min((room - gap * (across - 1)) / across, tallest / aspect, 44);
    if (side > best.side * 1.15) best = { side, lines, across };
  }
  const side = Math.max(Math.floor(best.side), 3);
  const each = Math.max(Math.round(side * aspect), 3);
  const [x, tall] = [best.across * (side + gap) - gap, best.lines * (each + gap) - gap];
  return { side, gap, x, y: 0, lines: best.lines, across: best.across, each, tall };
}

/**
 * Words in lines, `y` being the number of the line for now. Where they do not fit, the lines that hold the step's word,
 * between dots that stand for the nearest word on either side that is not shown.
 * @param {string[]} texts
 * @param {boolean[]} attached which stand without a space before them
 * @param {{ x: number, width: number, mirrored: boolean }} tower
 * @param {(text: string) => number} measure
 * @param {number} step
 * @returns {PlacedWord[]}
 */
export function wordsOf(texts, attached, { x, width, mirrored }, measure, step) {
  const from = mirrored ? x : x + SIDE;
  const room = width - SIDE;
  let [at, line] = [0, 0];
  const found = texts.map((text, index) => {
    const wide = Math.min(measure(text) + 2 * PAD, room);
    if (attached[index] && at) at -= 2 * PAD;
    if (at && at + wide > room) [at, line] = [0, line + 1];
    const word = { text, index, x: from + at, y: line, width: wide };
    at += wide;
    return word;
  });
  if (line < MOST_LINES) return found;
  const first = Math.min(Math.max((found[Math.max(step, 0)]?.y ?? 0) - 1, 0), line + 1 - MOST_LINES);
  const shown = found
    .filter(({ y }) => y >= first && y < first + MOST_LINES)
    .map((word) => ({ ...word, y: word.y - first }));
  const [start, end, dots] = [shown[0], shown[shown.length - 1], { text: "…", width: measure("…") + 2 * PAD }];
  if (start.index > 0) shown.unshift({ ...dots, index: start.index - 1, x: start.x - dots.width, y: start.y });
  if (end.index < texts.length - 1) shown.push({ ...dots, index: end.index + 1, x: end.x + end.width, y: end.y });
  return shown;
}

/**
 * @param {PlacedTower} tower
 * @param {number} down
 */
function shift(tower, down) {
  tower.top += down;
  tower.bottom += down;
  tower.wordsTop += down;
  for (const one of [...tower.frames, ...tower.words]) one.y += down;
  for (const one of tower.rows) {
    one.y += down;
    one.read += down;
    one.merge += down;
    if (one.grid) one.grid.y += down;
  }
}

/**
 * The stream's outline from the bottom up: at each sum it is parted, `1 - share` of its width goes by, `share` comes
 * back.
 * @param {{ stream: number, mirrored: boolean, rows: PlacedRow[], wordsTop: number, top: number }} tower
 * @param {(part: number) => number | null} shareOf
 */
export function streamOf({ stream, mirrored, rows, wordsTop, top }, shareOf) {
  const sign = mirrored ? -1 : 1;
  const at = (/** @type {number} */ width) => (stream + sign * width).toFixed(1);
  // Nothing is added.
  if (!rows.some(({ row }) => row.sums.length)) return `M${at(STREAM / 2)} ${wordsTop} V${top} h2 V${wordsTop} Z`;
  let inner = `L${at(STREAM)} ${wordsTop.toFixed(1)}`;
  for (const placed of rows) {
    const sums = placed.row.sums.length ? placed.row.sums : placed.row.slim ? [] : placed.row.boxes.slice(-1);
    const each = (placed.read - placed.merge) / Math.max(sums.length, 1);
    sums.forEach((sum, place) => {
      const share = shareOf(sum);
      if (share === null) return;
      const width = STREAM * (1 - share);
      const [from, to] = [placed.read - place * each, placed.read - (place + 1) * each];
      const ease = Math.min(7, each / 3);
      inner += ` L${at(STREAM)} ${from.toFixed(1)} C${at(STREAM)} ${(from - ease).toFixed(1)}`;
      inner += ` ${at(width)} ${(from - ease / 2).toFixed(1)} ${at(width)} ${(from - ease).toFixed(1)}`;
      inner += ` L${at(width)} ${(to + 1).toFixed(1)} L${at(STREAM)} ${(to + 1).toFixed(1)}`;
    });
  }
  return `M${at(0)} ${wordsTop.toFixed(1)} ${inner} L${at(STREAM)} ${top.toFixed(1)} L${at(0)} ${top.toFixed(1)} Z`;
}

/**
 * What a sub-layer adds, from its box back into the stream: as thick there as its share.
 * @param {{ stream: number, mirrored: boolean }} tower
 * @param {PlacedRow} placed
 * @param {number} share
 */
export function bandOf({ stream, mirrored }, placed, share) {
  const sign = mirrored ? -1 : 1;
  const thick = Math.max(STREAM * share, 0.8);
  const edge = mirrored ? placed.boxes[0].x + placed.boxes[0].width : placed.boxes[0].x;
  const out = placed.y + Math.min(placed.height * 0.36, 13);
  const [near, far] = [stream + sign * STREAM, stream + sign * (STREAM - thick)];
  const y = placed.merge + 1;
  const middle = (edge + near) / 2;
  const p = (/** @type {number} */ number) => number.toFixed(1);
  const there = `C${p(middle)} ${p(out - thick / 2)} ${p(near)} ${p(y + 5)} ${p(near)} ${p(y)}`;
  const back = `C${p(far)} ${p(y + 9)} ${p(middle)} ${p(out + thick / 2)} ${p(edge)} ${p(out + thick / 2)}`;
  return `M${p(edge)} ${p(out - thick / 2)} ${there} L${p(far)} ${p(y)} ${back} Z`;
}
