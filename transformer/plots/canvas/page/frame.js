// What a notebook runs for a cell's frame, once that is loaded: it makes the frame as high as its page, and tells the
// page whether the notebook's letters are light. The page cannot see the notebook, and it need not know the page.

const TALLEST = 4000; // CSS pixels: no page makes its frame higher than this

/**
 * Follow a frame's page, as long as there is one.
 * @param {HTMLIFrameElement} frame
 */
export function follow(frame) {
  const told = () => {
    const colour = frame.parentElement ? getComputedStyle(frame.parentElement).color : "";
    const [red, green, blue] = (/^rgb/.test(colour) ? (colour.match(/[\d.]+/g) ?? []) : []).map(Number);
    frame.contentWindow?.postMessage({ heedmap: { theme: red + green + blue > 382 ? "dark" : "light" } }, "*");
  };
  window.addEventListener("message", ({ data, source }) => {
    const height = source === frame.contentWindow && data?.heedmap?.height;
    if (height > 0) frame.style.height = `${Math.min(height, TALLEST)}px`;
  });
  frame.style.transition = "color 1ms"; // so that the frame hears of another theme of the notebook
  frame.ontransitionend = frame.ontransitioncancel = told;
  told();
}
