"use strict";
// Draws one run. Words, labels and facts come from the element "facts", weights from "weights-…".

const $ = id => document.getElementById(id);
const facts = JSON.parse($("facts").textContent);
const { words, kinds, steps, first, last } = facts; // the first step has read the prompt
const MASKED = 0, LOW = 1, HIGH = 254, NAN = 255; // codes of cells, as in the window
const FAINT = 0.2, LATER = 0.55; // opacity of rows that are not yet written, and of their labels
const state = { ...facts.start, cell: null, by: "query", hover: null };
const images = new Map(); // of heads, until colours or scale change
let timer = null, settling = null, colours = null;

// ---- numbers, as the window writes them ------------------------------------------------------

const signed = text => text.replaceAll("-", "−");

function fixed(x, digits) {
  const twice = Math.abs(x) * 2 * 10 ** digits; // a tie goes to the even digit, as in Python
  const even = twice % 4 === 1 ? (Math.sign(x) * (twice - 1)) / 2 / 10 ** digits : x;
  return even.toFixed(digits);
}

function probability(p) {
  if (p !== p || p === 0) return p === 0 ? "0" : "NaN";
  const small = () => p.toExponential(1).replace(/e([+-])(\d)$/, "e$10$2");
  return signed(Math.abs(p) < 1e-4 ? small() : fixed(p, 4));
}

function share(p) {
  if (!(p >= 0.005)) return p !== p ? "NaN" : facts.numbers.nought;
  return p >= 0.995 ? "1.0" : fixed(p, 2).slice(1);
}

const fill = (text, fields) => text.replace(/\{(\w+)\}/g, (_, name) => fields[name]);

// ---- weights ---------------------------------------------------------------------------------

const DIGITS = new Uint8Array(127); // of base 85: what can be printed, but for signs of HTML and JSON
let digits = 0;
for (let letter = 33; letter < 127; letter++)
  if (!"\"&'<>\\`".includes(String.fromCharCode(letter))) DIGITS[letter] = digits++;

async function inflated(text) { // five characters are four bytes; the first four are their number
  const bytes = new DataView(new ArrayBuffer((text.length / 5) * 4));
  for (let at = 0; at < text.length; at += 5) {
    let word = 0;
    for (let digit = at; digit < at + 5; digit++) word = word * 85 + DIGITS[text.charCodeAt(digit)];
    bytes.setUint32((at / 5) * 4, word);
  }
  const length = bytes.getUint32(0), packed = new Uint8Array(bytes.buffer, 4, length);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function read(kind) {
  const planes = await inflated($(`weights-${kind.kind}`).textContent);
  const count = planes.length / 4, bytes = new Uint8Array(planes.length);
  for (let byte = 0; byte < 4; byte++)
    for (let at = 0; at < count; at++) bytes[4 * at + byte] = planes[byte * count + at];
  kind.weights = new Float32Array(bytes.buffer);
  kind.bits = await inflated(kind.allowed);
  [kind.layers, kind.heads, kind.height, kind.width] = kind.shape;
}

function kindOf(name) {
  return kinds.find(kind => kind.kind === name);
}
const focused = () => kindOf(state.kind);
const inFocus = () => state.hover || state.cell;
const within = (at, count) => Math.max(0, Math.min(count - 1, at));
const layerOf = kind => within(state.layer, kind.layers);
const place = kind => layerOf(kind) * kind.heads + within(state.head, kind.heads);
// rows that the step has reached: all of the encoder's
const reached = kind => (kind.kind === "encoder" ? kind.height : Math.min(state.step, kind.height));

function row(kind, query, at = place(kind)) {
  const start = (at * kind.height + query) * kind.width;
  return kind.weights.subarray(start, start + kind.width);
}

function isMasked(kind, query, key, at = place(kind)) {
  const bit = (kind.masks[at] * kind.height + query) * kind.width + key;
  return !((kind.bits[bit >> 3] >> (bit & 7)) & 1);
}

function mostRead(weights) { // -1 where one is NaN
  if (weights.some(w => w !== w)) return -1;
  return weights.reduce((best, w, at) => (w > weights[best] ? at : best), 0);
}

function rowInFocus(kind) { // of the encoder the one with the largest weight on another token
  const cell = inFocus();
  if (cell && cell.kind === kind.kind) return cell.query;
  if (kind.kind !== "encoder") return reached(kind) - 1;
  let best = 0, most = -1;
  for (let query = 0; query < kind.height; query++)
    row(kind, query).forEach((w, key) => {
      if (key !== query && w > most) [best, most] = [query, w];
    });
  return best;
}

function partner(kind, by, at) { // the cell of a token and of what it reads, or is read by, most
  const rows = reached(kind);
  if (at < 0 || at >= (by === "query" ? rows : kind.width) || !rows) return null;
  const column = () => Array.from({ length: rows }, (_, query) => row(kind, query)[at]);
  const other = Math.max(0, mostRead(by === "query" ? row(kind, at) : column()));
  return { kind: kind.kind, by, ...(by === "query" ? { query: at, key: other } : { query: other, key: at }) };
}

function marksOf(kind) { // the tokens of the cell in focus, in the map of any kind
  const cell = inFocus(), sides = { encoder: "ss", cross: "ts", decoder: "tt" };
  if (!cell) return { rows: [], columns: [] };
  if (cell.kind === kind.kind) return { rows: [cell.query], columns: [cell.key], cell };
  const tokens = [[sides[cell.kind][0], cell.query], [sides[cell.kind][1], cell.key]];
  const on = side => tokens.filter(([own]) => own === side).map(([, at]) => at);
  return { rows: on(sides[kind.kind][0]), columns: on(sides[kind.kind][1]) };
}

function fewest(weights, mass) { // the fewest keys with this share of a row
  const order = [...weights.keys()].sort((a, b) => weights[b] - weights[a] || a - b);
  const total = weights.reduce((sum, w) => sum + w, 0), kept = [];
  let before = 0;
  for (const key of order) {
    if (!(before < mass * total - 1e-7 && weights[key] > 0)) break;
    kept.push(key);
    before += weights[key];
  }
  return kept;
}

// ---- colours ---------------------------------------------------------------------------------

function readColours() {
  const style = getComputedStyle(document.body);
  const get = name => style.getPropertyValue(`--${name}`).trim();
  const rgb = name => [1, 3, 5].map(at => parseInt(name.slice(at, at + 2), 16));
  const names = ["window", "base", "raised", "text", "faint", "accent", "line", "query", "key"];
  colours = Object.fromEntries(names.map(name => [name, get(name)]));
  const ramp = get("ramp").split(" ").map(rgb), table = [];
  for (let code = LOW; code <= HIGH; code++) {
    const at = ((code - LOW) / (HIGH - LOW)) * (ramp.length - 1), low = within(Math.floor(at), ramp.length - 1);
    table[code] = ramp[low].map((from, i) => Math.round(from + (ramp[low + 1][i] - from) * (at - low)));
  }
  [table[MASKED], table[NAN]] = [rgb(colours.raised), rgb(get("nan"))];
  const linear = part => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  const luminance = parts => parts.reduce((sum, part, i) => sum + linear(part / 255) * [0.2126, 0.7152, 0.0722][i], 0);
  const [dark, light] = [colours.text, colours.base].sort((a, b) => luminance(rgb(a)) - luminance(rgb(b)));
  colours.inks = table.map(one => (luminance(one) < facts.numbers.darkest ? light : dark));
  colours.css = table.map(one => `rgb(${one})`);
  colours.packed = new Uint32Array(table.map(([r, g, b]) => (255 << 24) | (b << 16) | (g << 8) | r));
  colours.family = style.getPropertyValue("font-family");
  images.clear();
}

function scaled(kind, at = place(kind)) { // shades [Q x K] in [0, 1] or NaN, and the scale's ends
  const { floor } = facts.numbers, shades = new Float32Array(kind.height * kind.width);
  const rows = Array.from({ length: kind.height }, (_, query) => row(kind, query, at));
  const tops = rows.map(weights => weights.reduce((top, w) => (w > top ? w : top), 0));
  const most = Math.max(0, ...tops);
  const own = { fixed: () => 1, head: () => most || 1, row: query => tops[query] || 1, log: () => 1 }[state.scale];
  const log = w => Math.log(Math.max(w, floor) / floor) / -Math.log(floor);
  rows.forEach((weights, query) =>
    weights.forEach((w, key) => {
      const shade = state.scale === "log" ? log(w) : w / own(query);
      shades[query * kind.width + key] = Math.min(1, Math.max(0, shade)); // NaN stays NaN
    }));
  const high = { fixed: "1", log: "1", row: words.row_max, head: signed(String(Number(most.toPrecision(4)))) };
  return { shades, ends: [state.scale === "log" ? `≤ ${floor}` : "0", high[state.scale]] };
}

const code = shade => (shade !== shade ? NAN : Math.floor(LOW + 0.5 + shade * (HIGH - LOW)));

function image(kind, at, by = 1) { // of a head; each pixel is the largest of by x by cells
  const name = `${kind.kind} ${at} ${by}`;
  if (images.has(name)) return images.get(name);
  const canvas = document.createElement("canvas"), { shades } = scaled(kind, at);
  [canvas.width, canvas.height] = [Math.ceil(kind.width / by), Math.ceil(kind.height / by)];
  const codes = new Uint8Array(canvas.width * canvas.height);
  shades.forEach((shade, i) => {
    const query = Math.floor(i / kind.width), key = i % kind.width, one = code(shade);
    const to = Math.floor(query / by) * canvas.width + Math.floor(key / by);
    codes[to] = Math.max(codes[to], one === LOW && isMasked(kind, query, key, at) ? MASKED : one);
  });
  const context = canvas.getContext("2d"), pixels = context.createImageData(canvas.width, canvas.height);
  new Uint32Array(pixels.data.buffer).set(Uint32Array.from(codes, one => colours.packed[one]));
  context.putImageData(pixels, 0, 0);
  images.set(name, { canvas, codes });
  return images.get(name);
}

function pattern(context, lines, colour) {
  const tile = document.createElement("canvas"), pen = tile.getContext("2d");
  tile.width = tile.height = 8;
  pen.strokeStyle = colour;
  for (const [x, y, toX, toY] of lines) pen.stroke(new Path2D(`M${x} ${y}L${toX} ${toY}`));
  return context.createPattern(tile, "repeat");
}

const HATCH = [[-1, 9, 9, -1], [-1, 1, 1, -1], [7, 9, 9, 7]], CROSS = [...HATCH, [-1, -1, 9, 9]];

// ---- pictures --------------------------------------------------------------------------------

const roomOf = canvas => canvas.parentElement.clientWidth - 2;

function sized(canvas, wide, high) {
  const ratio = window.devicePixelRatio || 1, context = canvas.getContext("2d");
  [canvas.width, canvas.height] = [Math.round(wide * ratio), Math.round(high * ratio)];
  [canvas.style.width, canvas.style.height] = [`${wide}px`, `${high}px`];
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.textBaseline = "middle";
  context.imageSmoothingEnabled = false;
  return context;
}

function font(context, size, bold = false) {
  context.font = `${bold ? 600 : 400} ${size}px ${colours.family}`;
}

function widest(context, labels, size) {
  font(context, size, true);
  return labels.reduce((most, label) => Math.max(most, context.measureText(label).width), 0);
}

function write(context, text, x, y, { align = "left", colour = colours.text, room = Infinity, upright = false } = {}) {
  const letters = room < Infinity ? [...text] : [text];
  while (letters.length > 1 && context.measureText(letters.join("")).width > room) letters.splice(-2, 2, "…");
  context.save();
  context.translate(x, y);
  if (upright) context.rotate(-Math.PI / 2);
  [context.textAlign, context.fillStyle] = [align, colour];
  context.fillText(letters.join(""), 0, 0);
  context.restore();
}

// Writes the labels of a side: all that have room, those in ``named`` in any case and bold.
function writeLabels(context, labels, size, pitch, named, one) {
  const thin = Math.max(1, Math.ceil((size * 1.2) / pitch));
  labels.forEach((label, at) => {
    const own = named.includes(at), near = named.some(other => other !== at && Math.abs(other - at) < thin);
    if (!own && (at % thin || near)) return;
    font(context, size, own);
    one(label, at);
  });
}

function drawMap(canvas, kind, large) {
  const size = large ? 13 : 11, line = size * 1.35, room = roomOf(canvas), rows = reached(kind);
  const measure = sized(canvas, room, 1), above = canvas.getBoundingClientRect().top + scrollY;
  const left = Math.min(widest(measure, kind.rows, size), room * 0.3) + line + 8;
  const top = Math.min(widest(measure, kind.columns, size), 9 * size) + line + 8;
  // all of it in sight, where cells stay large enough to be read
  const sight = Math.max(17, Math.min(30, (innerHeight - above - top - 75) / kind.height));
  const pitch = Math.min((room - left) / kind.width, large ? sight : 18), by = Math.max(1, Math.floor(1 / pitch));
  const wide = pitch * kind.width, high = pitch * kind.height, done = pitch * rows;
  const context = sized(canvas, room, top + high + 2), marks = marksOf(kind);
  const { canvas: cells, codes } = image(kind, place(kind), by), edge = Math.ceil(rows / by);
  context.drawImage(cells, 0, 0, cells.width, edge, left, top, wide, done);
  context.globalAlpha = FAINT;
  context.drawImage(cells, 0, edge, cells.width, cells.height - edge, left, top + done, wide, high - done);
  context.globalAlpha = 1;
  if (by === 1) drawSigns(context, kind, codes, { left, top, pitch, rows, digits: large && pitch >= 17 });
  const current = rowInFocus(kind), best = current < 0 ? -1 : mostRead(row(kind, current));
  writeLabels(context, kind.rows, size, pitch, [current, ...marks.rows], (label, query) => {
    context.globalAlpha = query < rows ? 1 : LATER;
    const how = { align: "right", colour: colours.query, room: left - line - 6 };
    write(context, label, left - 4, top + (query + 0.5) * pitch, how);
  });
  context.globalAlpha = 1;
  writeLabels(context, kind.columns, size, pitch, [best, ...marks.columns], (label, key) =>
    write(context, label, left + (key + 0.5) * pitch, top - 4, { upright: true, colour: colours.key, room: top - line - 6 }));
  font(context, size);
  write(context, kind.axes[1], left, line / 2, { colour: colours.key, room: room - left });
  write(context, kind.axes[0], line / 2, top + high, { upright: true, colour: colours.query, room: top + high - 4 });
  const frame = (colour, width, ...box) => {
    [context.strokeStyle, context.lineWidth] = [colour, width];
    context.strokeRect(...box);
  };
  frame(colours.line, 1, left - 0.5, top - 0.5, wide + 1, high + 1);
  const [prompt, prompted] = kind.border || [0, 0];
  if (prompt) frame(colours.text, 1, left, top + prompt * pitch, wide, 0);
  if (prompted) frame(colours.text, 1, left + prompted * pitch, top, 0, high);
  if (current >= 0 && kind.kind !== "encoder") frame(colours.accent, 1, left, top + current * pitch, wide, pitch);
  const cell = marks.cell && [left + marks.cell.key * pitch, top + marks.cell.query * pitch, pitch, pitch];
  if (cell) frame(colours.base, 5, ...cell);
  if (cell) frame(colours.accent, state.hover ? 2 : 3, ...cell);
  canvas.hit = (x, y) => {
    const query = Math.floor((y - top) / pitch), key = Math.floor((x - left) / pitch);
    return query >= 0 && query < rows && key >= 0 && key < kind.width ? { kind: kind.kind, by: "query", query, key } : null;
  };
}

function drawSigns(context, kind, codes, { left, top, pitch, rows, digits }) { // hatches, crosses, numbers
  const hatch = pattern(context, HATCH, colours.faint), crosses = pattern(context, CROSS, "rgba(255,255,255,.6)");
  font(context, Math.min(12, pitch * 0.46));
  codes.forEach((one, i) => {
    const query = Math.floor(i / kind.width), key = i % kind.width, x = left + key * pitch, y = top + query * pitch;
    if (pitch >= 5 && (one === MASKED || one === NAN)) {
      context.globalAlpha = (query < rows ? 1 : FAINT) * (one === MASKED ? 0.45 : 1);
      context.fillStyle = one === MASKED ? hatch : crosses;
      context.fillRect(x, y, pitch, pitch);
      context.globalAlpha = 1;
    }
    const text = digits && query < rows && one !== MASKED ? share(row(kind, query)[key]) : facts.numbers.nought;
    if (text === facts.numbers.nought) return;
    write(context, text, x + pitch / 2, y + pitch / 2, { align: "center", colour: colours.inks[one] });
  });
}

function drawArcs(canvas, kind) {
  const size = 13, room = roomOf(canvas), rows = reached(kind), longest = Math.max(kind.height, kind.width);
  const pitch = Math.max(19, Math.min(38, 560 / longest)), context = sized(canvas, room, (longest + 1) * pitch);
  const start = Math.min(widest(context, kind.rows, size) + 8, room * 0.46);
  const end = room - Math.min(widest(context, kind.columns, size) + 8, room * 0.3);
  const middle = (start + end) / 2, y = at => (at + 1.5) * pitch, marks = marksOf(kind), { shades } = scaled(kind);
  const byKey = state.by === "key", chosen = byKey ? marks.columns : marks.rows, lines = [];
  for (let query = 0; query < rows; query++)
    for (const key of fewest(row(kind, query), facts.mass)) lines.push([query, key, shades[query * kind.width + key]]);
  lines.sort((a, b) => a[2] - b[2]);
  const stroke = (some, opacity) => some.forEach(([query, key, strength]) => {
    context.globalAlpha = opacity * (0.25 + 0.75 * strength);
    [context.strokeStyle, context.lineWidth] = [colours.accent, 0.5 + 3.5 * strength];
    context.stroke(new Path2D(`M${start} ${y(query)}C${middle} ${y(query)} ${middle} ${y(key)} ${end} ${y(key)}`));
  });
  const bold = lines.filter(one => chosen.includes(one[byKey ? 1 : 0]));
  stroke(lines, chosen.length ? 0.15 : 1);
  stroke(bold, 1);
  writeLabels(context, kind.rows, size, pitch, [...marks.rows, rowInFocus(kind)], (label, at) => {
    context.globalAlpha = at < rows ? 1 : LATER;
    write(context, label, start - 4, y(at), { align: "right", colour: colours.query, room: start - 6 });
  });
  context.globalAlpha = 1;
  writeLabels(context, kind.columns, size, pitch, marks.columns, (label, at) =>
    write(context, label, end + 4, y(at), { colour: colours.key, room: room - end - 6 }));
  font(context, 11);
  for (const [query, key] of bold) {
    const text = share(row(kind, query)[key]), wide = context.measureText(text).width, at = y(byKey ? query : key);
    const x = byKey ? start + 3 : end - 3 - wide;
    context.fillStyle = colours.window;
    context.fillRect(x, at - 7, wide, 14);
    write(context, text, x, at);
  }
  font(context, size);
  write(context, kind.axes[0], 0, pitch / 2, { colour: colours.query, room: middle - 8 });
  write(context, kind.axes[1], room, pitch / 2, { align: "right", colour: colours.key, room: middle - 8 });
  canvas.hit = (x, down) => partner(kind, x < middle ? "query" : "key", Math.floor(down / pitch - 1));
}

function drawTexts(kind) {
  const { shades } = scaled(kind), cell = inFocus(), own = cell && cell.kind === kind.kind;
  const byKey = own && state.by === "key", query = rowInFocus(kind), key = own ? cell.key : 0;
  const piece = (by, label, q, k) => {
    const span = element("span", label), one = code(shades[q * kind.width + k]), at = by === "query" ? q : k;
    if ((by === "key") === !byKey) {
      const masked = one === LOW && isMasked(kind, q, k);
      if (masked) span.className = "masked";
      else [span.style.background, span.style.color] = [colours.css[one], colours.inks[one]];
    } else if (at === (byKey ? key : query)) span.className = "chosen";
    span.cell = () => partner(kind, by, at);
    return span;
  };
  const text = (labels, spaced, make) => {
    const line = element("p");
    line.append(...labels.flatMap((label, at) => [spaced[at] ? " " : "", make(label, at)]));
    return line;
  };
  const caption = (said, fields) => element("div", fill(said, fields), "faint");
  $("texts").replaceChildren(
    caption(byKey ? words.queries_read_by : words.queries, { key: kind.columns[key] }),
    text(kind.rows.slice(0, reached(kind)), kind.spaced[0], (label, q) => piece("query", label, q, key)),
    caption(byKey ? words.keys : words.keys_read, { query: kind.rows[query] }),
    text(kind.columns, kind.spaced[1], (label, k) => piece("key", label, query, k)));
}

function drawHeads(kind) {
  const canvas = $("heads"), room = roomOf(canvas), left = 26, top = 16, wide = (room - left) / kind.heads;
  const high = kind.width ? Math.min(120, Math.max(12, ((wide - 4) * kind.height) / kind.width + 4)) : 12;
  const context = sized(canvas, room, top + high * kind.layers + 2), frame = place(kind);
  const by = Math.max(1, Math.floor(Math.max(kind.height / high, kind.width / wide) / (window.devicePixelRatio || 1)));
  font(context, 12);
  kind.masks.forEach((_, at) => {
    const layer = Math.floor(at / kind.heads), x = left + (at % kind.heads) * wide, y = top + layer * high;
    if (kind.height && kind.width) context.drawImage(image(kind, at, by).canvas, x, y, wide - 4, high - 4);
    const chosen = at === frame ? 1 : 0;
    [context.strokeStyle, context.lineWidth] = [chosen ? colours.accent : colours.line, 1 + chosen];
    context.strokeRect(x - chosen, y - chosen, wide - 4 + 2 * chosen, high - 4 + 2 * chosen);
    if (!layer && (wide > 28 || at % 2 === 0)) write(context, `H${at + 1}`, x + wide / 2 - 2, top / 2, { align: "center" });
    if (at % kind.heads === 0) write(context, `L${layer + 1}`, 0, y + high / 2);
  });
  canvas.hit = (x, y) => {
    const layer = Math.floor((y - top) / high), head = Math.floor((x - left) / wide);
    return layer >= 0 && layer < kind.layers && head >= 0 && head < kind.heads ? { layer, head } : null;
  };
}

// ---- words -----------------------------------------------------------------------------------

function element(name, text = "", className = "") {
  return Object.assign(document.createElement(name), { textContent: text, className });
}

// A sentence whose query and key have the colours of their roles; tokens keep their direction.
function say(into, sentence, fields) {
  into.replaceChildren(...sentence.split(/(“?\{\w+\}”?)/).map(part => {
    const name = (/\{(\w+)\}/.exec(part) || [])[1], text = fill(part, fields);
    if (name !== "query" && name !== "key") return text;
    const [, before, token, after] = /^(“?)(.*?)(”?)$/s.exec(text), span = element("span", "", name);
    span.append(before, element("bdi", token), after);
    return span;
  }));
}

function tell(kind) {
  const query = rowInFocus(kind), into = $("sentence");
  if (!kind.width || query < 0) return say(into, words.unwritten, {});
  const weights = row(kind, query), key = mostRead(weights), most = weights[key];
  const strong = facts.forms[state.form][1], own = { query: kind.queries[query], strong };
  if (key < 0) return say(into, words.nan, own);
  const alike = weights.filter(w => Math.abs(w - most) <= 1e-6 * most).length;
  const said = kind.alike[alike] || kind.tells[kind.told[layerOf(kind)][query]];
  say(into, said, { ...own, key: kind.columns[key], weight: probability(most) });
}

function weightWords(kind, query, key) {
  const weights = row(kind, query), value = probability(weights[key]), nan = mostRead(weights) < 0;
  const said = text => fill(text, { weight: value, value });
  if (kind.captured[layerOf(kind)]) return said(words.captured);
  if (weights.every((_, at) => isMasked(kind, query, at))) return said(nan ? words.nothing_nan : words.nothing_equal);
  if (nan) return kind.lost[[layerOf(kind), place(kind) % kind.heads, query]];
  return isMasked(kind, query, key) ? said(words.masked_value) : value;
}

function tellCell() {
  const cell = inFocus(), kind = cell && kindOf(cell.kind);
  if (!cell) return say($("cell"), words.point, {});
  const [query, key] = [kind.quoted[0][cell.query], kind.quoted[1][cell.key]], weight = weightWords(kind, cell.query, cell.key);
  say($("cell"), words.reads, { kind: kind.name, head: kind.heads_named[place(kind)], query, key, weight });
}

function tintChips() {
  const cell = inFocus(), kind = kindOf(cell ? cell.kind : kindOf("cross") ? "cross" : "decoder");
  const query = cell ? cell.query : state.step - 1, known = kind && query >= 0 && query < kind.height;
  const weights = known ? row(kind, query) : [], side = kind && kind.kind === "decoder" ? "target" : "source";
  for (const chip of document.querySelectorAll(".chip")) {
    const { at, strip } = chip, target = strip.side === "target", weight = strip.side === side ? weights[at] || 0 : 0;
    chip.classList.toggle("current", target && at > 0 && at === state.step);
    chip.classList.toggle("later", target && at > state.step);
    chip.classList.toggle("marked", Boolean(cell) && strip.side === side && at === cell.key);
    const tint = `color-mix(in srgb, ${colours.accent} ${Math.round(100 * Math.min(1, weight))}%, ${colours.base})`;
    [chip.style.background, chip.style.color] = weight > 0 ? [tint, weight > 0.5 ? colours.base : ""] : ["", ""];
  }
}

function fillTable(table, lines) { // of [cells, share of the bar, whether it is chosen]
  table.tBodies[0].replaceChildren(...lines.map(([cells, bar, chosen]) => {
    const line = element("tr", "", chosen ? "chosen" : "");
    line.append(...cells.map((text, at) => element(at === cells.length - 2 ? "th" : "td", text)));
    line.style.setProperty("--share", `${100 * Math.min(1, bar || 0)}%`);
    return line;
  }));
}

function drawTables(kind) {
  const { cell } = state, masked = cell && cell.kind === "encoder" && cell.query in facts.fills ? cell.query : Object.keys(facts.fills)[0];
  const nothing = { title: "", rows: [], others: "", summary: state.step ? facts.without : "" };
  const table = steps[state.step - 1] || facts.fills[masked] || nothing;
  $("next-title").textContent = table.title;
  $("next").hidden = !table.rows.length;
  fillTable($("next"), table.rows.map(([rank, token, p, chosen]) => [[rank || "–", token, probability(p ?? NaN)], p, chosen]));
  $("next-words").textContent = [table.others, table.summary].filter(Boolean).join("\n");
  const query = rowInFocus(kind), shown = kind.width > 0 && query >= 0, sign = key => (isMasked(kind, query, key) ? ` (${words.masked})` : "");
  $("row").hidden = !shown;
  if (!shown) return;
  $("row").caption.textContent = fill(words.read_by, { query: kind.queries[query], title: kind.titles[place(kind)] });
  $("row").tHead.rows[0].cells[0].textContent = kind.axes[1];
  fillTable($("row"), Array.from(row(kind, query), (w, key) => [[kind.columns[key], probability(w) + sign(key)], w]));
}

// ---- all of it -------------------------------------------------------------------------------

function drawPicture(kind) {
  const empty = !kind.width || rowInFocus(kind) < 0, arcs = state.form === "arcs", { ends: [low, high] } = scaled(kind);
  $("title").textContent = kind.titles[place(kind)];
  $("picture").hidden = !kind.width || !kind.height || state.form === "text";
  $("texts").hidden = state.form !== "text" || empty;
  if (!$("picture").hidden) (arcs ? drawArcs : drawMap)($("picture"), kind, true);
  if (!$("texts").hidden) drawTexts(kind);
  for (const id of ["low", "ramp", "high"]) $(id).hidden = arcs;
  [$("low").textContent, $("high").textContent] = [low, high];
  const ramp = $("ramp").getContext("2d");
  for (let one = LOW; one <= HIGH; one++) {
    ramp.fillStyle = colours.css[one];
    ramp.fillRect(one - LOW, 0, 1, 1);
  }
  const codes = empty ? [] : image(kind, place(kind)).codes;
  const signs = [[MASKED, "╱", words.masked], [NAN, "╳", "NaN"]].filter(([one]) => codes.includes(one));
  $("keys").replaceChildren(...signs.flatMap(([one, sign, name]) => {
    const box = element("span", sign);
    [box.style.background, box.style.color] = [colours.css[one], colours.inks[one]];
    return [box, ` ${name} `];
  }));
  const note = arcs ? fill(words.drawn, { percent: Math.round(100 * facts.mass), low, high }) : facts.scales[state.scale];
  $("note").textContent = [empty ? words.undecoded : note, kind.done[layerOf(kind)]].filter(Boolean).join("; ");
  $("picture").setAttribute("aria-label", `${kind.titles[place(kind)]}. ${$("sentence").textContent}`);
}

function drawOthers() {
  const others = kinds.filter(kind => kind.kind !== state.kind);
  while ($("others").childElementCount < others.length) {
    const button = element("button");
    button.append(element("h2"), element("canvas"));
    $("others").append(button);
  }
  others.forEach((kind, at) => {
    const button = $("others").children[at], [title, canvas] = button.children;
    title.textContent = kind.small[place(kind)];
    button.onclick = () => go({ kind: kind.kind });
    if (kind.width && kind.height) drawMap(canvas, kind, false);
  });
}

function choices(select, count, chosen) {
  if (select.length !== count)
    select.replaceChildren(...Array.from({ length: count }, (_, at) => new Option(at + 1, at)));
  select.value = chosen;
}

function draw() {
  const kind = focused(), at = place(kind);
  tell(kind);
  tellCell();
  drawPicture(kind);
  drawOthers();
  drawHeads(kind);
  tintChips();
  drawTables(kind);
  $("heads-title").textContent = fill(words.all_heads, { kind: kind.name });
  $("heads").setAttribute("aria-label", `${words.heads_said}; ${kind.heads_named[at]}`);
  [$("kind").value, $("scale").value] = [state.kind, state.scale];
  choices($("layer"), kind.layers, layerOf(kind));
  choices($("head"), kind.heads, at % kind.heads);
  for (const button of $("forms").children) button.setAttribute("aria-pressed", button.value === state.form);
  Object.assign($("steps"), { min: first, max: last, value: state.step });
  $("step").textContent = fill(first ? words.step_prompt : words.step, { step: state.step, last, prompt: first });
  for (const [id, end] of [["first", first], ["back", first], ["forward", last], ["last", last]])
    $(id).disabled = state.step === end;
}

function go(change) {
  if (change.scale) images.clear();
  Object.assign(state, change, { hover: null });
  const kind = focused();
  state.step = Math.max(first, within(state.step, last + 1));
  [state.layer, state.head] = [within(state.layer, kind.layers), within(state.head, kind.heads)];
  if (state.cell && state.cell.query >= reached(kindOf(state.cell.kind))) state.cell = null;
  if (state.step === last) play(false);
  draw();
  clearTimeout(settling);
  settling = setTimeout(writeAddress, 300); // browsers limit how often
}

function writeAddress() {
  const { cell, step, form, scale } = state, at = { step, kind: state.kind, layer: state.layer + 1, head: state.head + 1, form, scale };
  if (cell) Object.assign(at, { of: cell.kind, query: cell.query + 1, key: cell.key + 1 });
  try {
    history.replaceState(null, "", `#${new URLSearchParams(at)}`);
  } catch {} // in a frame without an address
}

function goToAddress() { // numbers count from 1
  const asked = new URLSearchParams(location.hash.slice(1)), change = {};
  const number = (name, count) => {
    const at = Number.parseInt(asked.get(name), 10) - 1;
    return at >= 0 && at < count ? at : undefined;
  };
  if (kindOf(asked.get("kind"))) change.kind = asked.get("kind");
  for (const [name, known] of [["form", facts.forms], ["scale", facts.scales]])
    if (asked.get(name) in known) change[name] = asked.get(name);
  for (const name of ["layer", "head"]) change[name] = number(name, Infinity) ?? state[name];
  change.step = asked.get("step") === "0" ? 0 : (number("step", Infinity) ?? state.step - 1) + 1;
  const kind = kindOf(asked.get("of") || change.kind || state.kind);
  const query = kind && number("query", kind.height), key = kind && number("key", kind.width);
  if (query !== undefined && key !== undefined) change.cell = { kind: kind.kind, by: "query", query, key };
  go(change);
}

function lock(cell) {
  const same = cell && state.cell && ["kind", "query", "key"].every(name => state.cell[name] === cell[name]);
  go({ cell: same ? null : cell, by: cell ? cell.by : "query", kind: cell ? cell.kind : state.kind });
}

function clickToken(strip, at) { // goes to the step that wrote it, or asks how it is read
  if (strip.side === "target") return go({ step: at });
  const kind = focused().kind === "decoder" ? kindOf("cross") || kindOf("encoder") : focused();
  if (rowInFocus(kind) >= 0) lock({ kind: kind.kind, by: "query", query: rowInFocus(kind), key: at });
}

function moveCell(down, across) {
  const kind = focused(), own = state.cell && state.cell.kind === kind.kind, query = rowInFocus(kind);
  if (!kind.width || query < 0) return;
  const key = own ? state.cell.key + across : Math.max(0, mostRead(row(kind, query)));
  const to = { query: within(query + (own ? down : 0), reached(kind)), key: within(key, kind.width) };
  go({ by: "query", cell: { kind: kind.kind, by: "query", ...to } });
}

function hover(cell) {
  const same = cell && state.hover && cell.query === state.hover.query && cell.key === state.hover.key && cell.by === state.hover.by;
  if (same || cell === state.hover) return;
  state.hover = cell;
  state.by = (inFocus() || { by: "query" }).by;
  requestAnimationFrame(draw);
}

function play(on) {
  if (on === (timer !== null)) return;
  clearInterval(timer);
  timer = on ? setInterval(() => go({ step: state.step + 1 }), 700) : null;
  named($("play"), on ? words.pause : words.play);
  $("playing").setAttribute("d", on ? "M4 2h3v12H4zM9 2h3v12H9z" : "M4 2v12l10-6z");
  if (on) go({ step: state.step === last ? first + 1 : state.step + 1 });
}

const step = by => () => go({ step: state.step + by });
const NUMBERED = ["encoder", "decoder", "cross"], FORMS = { m: "map", a: "arcs", t: "text" };
const ARROWS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
const KEYS = {
  ArrowLeft: step(-1), PageUp: step(-1), ArrowRight: step(1), PageDown: step(1),
  Home: () => go({ step: first }), End: () => go({ step: last }), " ": () => play(timer === null),
  Escape: () => go({ cell: null, by: "query" }),
};

function press(event) { // the window's keys
  const { key, target } = event, move = ARROWS[key], kind = NUMBERED[key - 1], form = FORMS[key.toLowerCase()];
  if (event.altKey || event.metaKey || /SELECT|INPUT/.test(target.tagName)) return;
  if (key === " " && /BUTTON|SUMMARY|A/.test(target.tagName)) return;
  let act = KEYS[key];
  if (event.ctrlKey) act = move && (() => go({ layer: state.layer + move[0], head: state.head + move[1] }));
  else if (event.shiftKey && move) act = () => moveCell(...move);
  else if (kindOf(kind)) act = () => go({ kind });
  else if (form) act = () => go({ form });
  if (!act) return;
  event.preventDefault();
  act();
}

function named(one, text) {
  if (one.tagName !== "SPAN") one.title = text;
  one.setAttribute("aria-label", text);
}

function buildStrip(strip) {
  const line = element("div", "", "strip");
  line.append(element("span", strip.title), ...strip.tokens.map((label, i) => {
    const chip = element("button", label, "chip"), at = strip.first + i, wrote = strip.side === "target" && steps[at - 1];
    Object.assign(chip, { at, strip, onclick: () => clickToken(strip, at), title: strip.raw[i] + (wrote ? ` · ${wrote.choice}` : "") });
    for (const [name, is] of [["joins", strip.joins[i]], ["goes-on", strip.joins[i + 1]], ["fed", wrote && wrote.fed]])
      chip.classList.toggle(name, Boolean(is));
    return chip;
  }));
  return line;
}

function build() {
  document.querySelectorAll("[data-word]").forEach(one => (one.textContent = words[one.dataset.word]));
  document.querySelectorAll("[data-tip]").forEach(one => named(one, words[one.dataset.tip]));
  $("model").textContent = facts.model;
  $("strips").replaceChildren(...facts.strips.map(buildStrip));
  $("notes").replaceChildren(...facts.notes.map(note => element("p", note)));
  $("kind").replaceChildren(...kinds.map(kind => new Option(kind.name, kind.kind)));
  $("scale").replaceChildren(...Object.entries(facts.scales).map(([value, name]) => new Option(name, value)));
  $("forms").replaceChildren(...Object.entries(facts.forms).map(([form, [name]]) =>
    Object.assign(element("button", name), { value: form, onclick: () => go({ form }) })));
  $("transport").hidden = !last;
  const file = $("file").textContent;
  if (file) Object.assign($("attached"), { hidden: false, href: `data:application/octet-stream;base64,${file}` });
  for (const id of ["kind", "scale"]) $(id).onchange = event => go({ [id]: event.target.value });
  for (const id of ["layer", "head"]) $(id).onchange = event => go({ [id]: Number(event.target.value) });
  const buttons = { first: "Home", back: "ArrowLeft", play: " ", forward: "ArrowRight", last: "End" };
  for (const [id, key] of Object.entries(buttons)) $(id).onclick = KEYS[key];
  $("steps").oninput = event => go({ step: Number(event.target.value) });
  const hit = event => {
    const canvas = event.target, box = canvas.getBoundingClientRect();
    return canvas.cell ? canvas.cell() : canvas.hit ? canvas.hit(event.clientX - box.left, event.clientY - box.top) : null;
  };
  for (const id of ["picture", "texts"]) {
    $(id).onpointermove = event => event.pointerType === "mouse" && hover(hit(event));
    $(id).onpointerleave = () => hover(null);
    $(id).onclick = event => lock(hit(event));
  }
  $("heads").onclick = event => go(hit(event) || {});
}

function follow() { // the theme, paper and the width of the window
  const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)");
  const repaint = () => (readColours(), draw());
  const look = theme => {
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
    repaint();
  };
  let before, wide = innerWidth;
  $("theme").onclick = () => look((root.dataset.theme || (dark.matches ? "dark" : "light")) === "dark" ? "light" : "dark");
  matchMedia("print").onchange = ({ matches }) => {
    if (matches) before = root.dataset.theme;
    look(matches ? "light" : before);
  };
  dark.onchange = repaint;
  onresize = () => {
    if (innerWidth !== wide) draw();
    wide = innerWidth;
  };
  onkeydown = press;
  onhashchange = goToAddress;
}

(async () => {
  build();
  try {
    for (const kind of kinds) await read(kind);
  } catch {
    say($("sentence"), words.old, {});
    return;
  }
  readColours();
  follow();
  goToAddress();
  document.documentElement.dataset.ready = "";
})();
