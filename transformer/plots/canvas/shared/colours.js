// Every colour that stands for a number or for a head. The scales are in scales.json.

import SCALES from "./scales.json" with { type: "json" };

/** The stops of the scale of weights. */
export const STOPS = SCALES.sequential;

// One colour a head. Chosen for distance under normal vision and the three kinds of colour blindness, and for at
// least 3:1 contrast with the page; the first eight are the most distinct. Seventeen heads and more start again.
const HEADS = {
  light: [
    "#0072b2", "#d9600a", "#00805c", "#b03a86", "#6b6000", "#3d2f8f", "#3a95d2", "#4d1020",
    "#9669ff", "#2d4bd2", "#b47896", "#690f5a", "#0f4b00", "#96003c", "#87965a", "#d21e3c",
  ],
  dark: [
    "#56b4e9", "#ff8038", "#2fc79a", "#f4a6d2", "#f2df4a", "#8f7dff", "#c7dcf0", "#c4584a",
    "#5a78a5", "#a5ffc3", "#009678", "#a5d278", "#c35ad2", "#b487b4", "#f04b0f", "#f0b400",
  ],
};

/** What marks a weight that is not a number: no colour of the scale is near it. */
export const NAN = "#ff1f6b";

/**
 * [red, green, blue] at `position` between 0 and 1 of a scale: that of weights, if its stops are not given.
 * @param {number} position
 */
export function scale(position, stops = STOPS) {
  const at = Math.min(Math.max(position, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(at), stops.length - 2);
  return stops[low].map((value, channel) => Math.round(value + (stops[low + 1][channel] - value) * (at - low)));
}

/** [red, green, blue] as CSS writes it. */
export function css(/** @type {number[]} */ channels) {
  return `rgb(${channels.join(",")})`;
}

/** The stops of the scale about 0. */
export function diverging(/** @type {Pick<Theme, "dark">} */ theme) {
  return theme.dark ? SCALES.diverging.dark : SCALES.diverging.light;
}

/**
 * [red, green, blue] of a number between -1 and 1, on a scale about 0.
 * @param {number} share
 * @param {Pick<Theme, "dark">} theme
 */
export function between(share, theme) {
  return scale((share + 1) / 2, diverging(theme));
}

/**
 * Black or white, whichever is read better on this colour: at least 4.58 to 1 on any (WCAG 2.2, 1.4.3).
 * @param {number[]} channels red, green and blue
 */
export function inkOn(channels) {
  const linear = (/** @type {number} */ one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
  const [red, green, blue] = channels.map((one) => linear(one / 255));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000" : "#fff";
}

/**
 * The colour of head number `head` on this theme, among `count` that are shown: one alone has that of all lines.
 * @param {number} head
 * @param {Pick<Theme, "dark" | "primary">} theme
 * @param {number} count
 */
export function headColour(head, theme, count) {
  if (count === 1) return theme.primary;
  const colours = theme.dark ? HEADS.dark : HEADS.light;
  return colours[head % colours.length];
}

/**
 * [red, green, blue] of any CSS colour.
 * @param {string} colour
 */
export function rgb(colour) {
  const canvas = document.createElement("canvas");
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d", { willReadFrequently: true }));
  context.fillStyle = colour;
  context.fillRect(0, 0, 1, 1);
  return [...context.getImageData(0, 0, 1, 1).data.slice(0, 3)];
}

/** @typedef {ReturnType<typeof themeOf>} Theme */

/**
 * Streamlit's theme as it is now, and what follows from it: is it dark, how does a masked cell look.
 * @param {Element} element
 */
export function themeOf(element) {
  const style = getComputedStyle(element);
  const value = (/** @type {string} */ name, /** @type {string} */ otherwise) =>
    style.getPropertyValue(`--st-${name}`).trim() || otherwise;
  const background = value("background-color", "#ffffff");
  const text = value("text-color", "#222222");
  const [paper, ink] = [rgb(background), rgb(text)];
  const mixed = (/** @type {number} */ share) =>
    paper.map((channel, i) => Math.round(channel + (ink[i] - channel) * share));
  return {
    background,
    text,
    border: value("border-color", "#cccccc"),
    primary: value("primary-color", "#0b6472"),
    font: style.fontFamily,
    dark: paper[0] + paper[1] + paper[2] < ink[0] + ink[1] + ink[2],
    masked: mixed(0.14),
    hatch: mixed(0.42),
  };
}
