// One binary message: [u32 little-endian header length][JSON header][arrays, one after the other].
// blob.py writes it; the header's "arrays" lists [name, type, length] in order.

/** @typedef {Uint8Array<ArrayBuffer> | Uint32Array<ArrayBuffer> | Float32Array<ArrayBuffer>} Numbers */

/** @typedef {{ header: any, arrays: Record<string, any> }} Received A message; each component knows its own fields. */

/** @type {Record<string, new (buffer: ArrayBuffer) => Numbers>} */
const TYPES = { uint8: Uint8Array, uint32: Uint32Array, float32: Float32Array };
const BYTES = { uint8: 1, uint32: 4, float16: 2, float32: 4 };

/**
 * The header and the named arrays of a message. slice() copies, so no array needs an aligned start.
 * @param {Uint8Array<ArrayBuffer>} message
 * @returns {Received}
 */
export function decode(message) {
  const start = 4 + new DataView(message.buffer, message.byteOffset, 4).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(message.subarray(4, start)));
  /** @type {Record<string, Numbers>} */
  const arrays = {};
  let offset = start;
  for (const [name, type, length] of /** @type {[string, keyof typeof BYTES, number][]} */ (header.arrays)) {
    const bytes = length * BYTES[type];
    const { buffer } = message.slice(offset, offset + bytes);
    arrays[name] = type === "float16" ? new Float32Array(new Float16Array(buffer)) : new TYPES[type](buffer);
    offset += bytes;
  }
  return { header, arrays };
}

/**
 * The bytes that base64 stands for.
 * @param {string} text
 */
export function bytesOf(text) {
  return Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0));
}

/**
 * Whether bit `index` is set in an array that numpy.packbits wrote; false when there is no array.
 * @param {Uint8Array | undefined} packed
 * @param {number} index
 */
export function bit(packed, index) {
  return packed !== undefined && (packed[index >> 3] & (128 >> (index & 7))) !== 0;
}
