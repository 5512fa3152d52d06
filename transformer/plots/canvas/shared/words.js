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
 * Whether two lists of texts are the same.
 * @param {readonly string[]} first
 * @param {readonly string[]} second
 */
export function sameTexts(first, second) {
  return first.length === second.length && first.every((text, index) => text === second[index]);
}
