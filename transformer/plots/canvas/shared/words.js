// What components say comes from Python, in the user's language: sentences with {fields} that are filled here.

/**
 * `sentence` with its fields put in.
 * @param {string} sentence
 * @param {Record<string, string | number>} fields
 * @throws {Error} a field is not given
 */
export function fill(sentence, fields) {
  return sentence.replace(/\{(\w+)\}/g, (_, name) => {
    if (!(name in fields)) throw new Error(`“${sentence}” has a field that is not given`);
    return String(fields[name]);
  });
}

/**
 * Texts as one, joined two by two by a sentence with {before} and {after}.
 * @param {string[]} each
 * @param {string} sentence
 */
export function listed(each, sentence) {
  return each.reduce((before, after) => fill(sentence, { before, after }));
}

/**
 * A whole number with a comma between thousands, as both languages write it.
 * @param {number} number
 */
export function counted(number) {
  return number.toLocaleString("en");
}

/**
 * A number in at most so many digits.
 * @param {number} number
 * @param {number} digits
 */
export function rounded(number, digits) {
  return String(Number(number.toPrecision(digits)));
}

/**
 * A number as a cell shows it.
 * @param {number} value
 * @param {number} digits
 * @param {string} undefinedWord
 */
export function written(value, digits, undefinedWord) {
  if (Number.isNaN(value)) return undefinedWord;
  if (!Number.isFinite(value)) return value < 0 ? "−∞" : "∞";
  if (Math.abs(value) >= 1e5) return value.toExponential(0).replace("e+", "e").replace("-", "−");
  const text = value.toFixed(digits);
  return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "−");
}

/**
 * Whether two lists are of the same texts or numbers.
 * @param {readonly (string | number)[]} first
 * @param {readonly (string | number)[]} second
 */
export function same(first, second) {
  return first.length === second.length && first.every((one, index) => one === second[index]);
}

/**
 * Multiples of 1, 2 or 5 times a power of ten between two numbers: at most `most` steps.
 * @param {number} low
 * @param {number} high
 * @param {number} most
 */
export function ticksOf(low, high, most, least = 0) {
  const about = Math.max((high - low) / most, least);
  const power = 10 ** Math.floor(Math.log10(about) + 1e-9);
  const step = power * ([1, 2, 5].find((one) => one * power >= about * (1 - 1e-9)) ?? 10);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.max(0, Math.floor(high / step + 1e-9) - first + 1) }, (_, i) => (first + i) * step);
}
