// Small things that both components do with the page: elements, options from Python, files to save.

/** A new element; `text` is set as text, never as markup. */
export function element(tag, className, text, attributes = {}) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined && text !== null) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

/** Call `changed` with this instance's options now, if they are there, and whenever options.js posts new ones. */
export function onOptions(instance, changed) {
  const posted = () => window.attentionAtlasOptions?.get(instance);
  const listener = (event) => {
    if (event.detail === instance) changed(posted());
  };
  window.addEventListener("heedmap-options", listener);
  if (posted()) changed(posted());
  return () => window.removeEventListener("heedmap-options", listener);
}

/** A function that runs `draw` once before the next frame, however often it is called until then. */
export function onceAFrame(draw) {
  let due = 0;
  return () => {
    due ||= requestAnimationFrame(() => {
      due = 0;
      draw();
    });
  };
}

/** Note on `root` how long a drawing took and how many there were, for whoever measures. */
export function timed(root, draw) {
  const start = performance.now();
  draw();
  root.dataset.drawMilliseconds = (performance.now() - start).toFixed(1);
  root.dataset.draws = Number(root.dataset.draws ?? 0) + 1;
}

/** A toolbar button. */
export function button(label, pressed) {
  const made = element("button", "button", label, { type: "button" });
  made.onclick = pressed;
  return made;
}

/** Let the reader keep `blob` as a file. */
export function save(blob, name) {
  const link = element("a", "", "", { download: name });
  link.href = URL.createObjectURL(blob);
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** Let the reader keep a canvas as a PNG. */
export function savePng(canvas, name) {
  canvas.toBlob((blob) => save(blob, `${name}.png`), "image/png");
}

/** Largest whole-picture canvas that browsers agree on, as a factor of at most `wanted` pixels per unit. */
export function pixelRatio(width, height, wanted = 2) {
  return Math.min(wanted, 16_000 / Math.max(width, height), Math.sqrt(120_000_000 / (width * height)));
}

/** `text`, shortened with an ellipsis to at most `width` units in the context's font; whole characters only. */
export function shortened(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  const characters = [...text];
  let [low, high] = [0, characters.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    const fits = context.measureText(`${characters.slice(0, middle).join("")}…`).width <= width;
    [low, high] = fits ? [middle, high] : [low, middle - 1];
  }
  return `${characters.slice(0, low).join("")}…`;
}

/** `text` in lines of at most `width` units in the context's font, broken at spaces; a longer word is shortened. */
export function wrapped(context, text, width) {
  const lines = [];
  for (const word of text.split(" ").map((one) => shortened(context, one, width))) {
    const longer = lines.length ? `${lines.at(-1)} ${word}` : word;
    if (lines.length && context.measureText(longer).width <= width) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}
