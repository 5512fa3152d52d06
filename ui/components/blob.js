// One binary message: [u32 little-endian header length][JSON header][arrays, one after the other].
// blob.py writes it; the header's "arrays" lists [name, type, length] in order.

const TYPES = { uint8: Uint8Array, uint32: Uint32Array, float32: Float32Array };

/** The header and the named arrays of a message. slice() copies, so no array needs an aligned start. */
export function decode(message) {
  const start = 4 + new DataView(message.buffer, message.byteOffset, 4).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(message.subarray(4, start)));
  const arrays = {};
  let offset = start;
  for (const [name, type, length] of header.arrays) {
    const bytes = length * TYPES[type].BYTES_PER_ELEMENT;
    arrays[name] = new TYPES[type](message.slice(offset, offset + bytes).buffer);
    offset += bytes;
  }
  return { header, arrays };
}

/** Whether bit `index` is set in an array that numpy.packbits wrote; false when there is no array. */
export function bit(packed, index) {
  return packed !== undefined && (packed[index >> 3] & (128 >> (index & 7))) !== 0;
}
