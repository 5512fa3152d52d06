// The keyboard in the grid of thumbnails.

/**
 * Where a key leads from a cell, staying inside the grid; undefined for any other key.
 * @param {{ key: string, ctrlKey: boolean }} event
 * @param {number} layer
 * @param {number} head
 * @param {import("./thumbnails.js").Shape} shape
 * @returns {[number, number] | undefined}
 */
export function keyTarget(event, layer, head, [layers, heads]) {
  /** @type {Record<string, [number, number]>} */
  const targets = {
    ArrowLeft: [layer, Math.max(head - 1, 0)],
    ArrowRight: [layer, Math.min(head + 1, heads - 1)],
    ArrowUp: [Math.max(layer - 1, 0), head],
    ArrowDown: [Math.min(layer + 1, layers - 1), head],
    Home: [event.ctrlKey ? 0 : layer, 0],
    End: [event.ctrlKey ? layers - 1 : layer, heads - 1],
  };
  return targets[event.key];
}
