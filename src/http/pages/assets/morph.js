// @ts-check
// Makes one element like another with as few changes as possible, so that focus, selection, opened details and what was
// typed survive. Children are matched by id, else by place and kind.

/**
 * @param {Element} old stays in the page
 * @param {Element} fresh how it is to be
 */
export function morph(old, fresh) {
  syncAttributes(old, fresh);
  syncChildren(old, fresh);
}

/** What people have done to the page is theirs: opened details stay open, a fetched part stays. */
const theirs = new Set(["open", "data-loaded", "data-sent"]);

/**
 * @param {Element} old
 * @param {Element} fresh
 */
function syncAttributes(old, fresh) {
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !theirs.has(name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value && !theirs.has(name)) old.setAttribute(name, value);
  }
}

/**
 * @param {Element} old
 * @param {Element} fresh
 */
function syncChildren(old, fresh) {
  const wanted = new Set([...fresh.children].map(({ id }) => id).filter(Boolean));
  let place = old.firstChild;
  for (const next of [...fresh.childNodes]) {
    const match = findMatch(old, place, next, wanted);
    if (!match) {
      old.insertBefore(next, place);
      continue;
    }
    if (match !== place) {
      if (next instanceof Element && next.id) old.insertBefore(match, place);
      else while (place && place !== match) place = removeAndNext(place);
    }
    update(match, next);
    place = match.nextSibling;
  }
  while (place) place = removeAndNext(place);
}

/** @param {ChildNode} node */
function removeAndNext(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

/**
 * @param {Element} old
 * @param {ChildNode | null} place
 * @param {Node} next
 * @param {Set<string>} wanted ids that have their own match
 * @returns {ChildNode | undefined}
 */
function findMatch(old, place, next, wanted) {
  if (next instanceof Element && next.id) {
    return [...old.children].find(({ id, nodeName }) => id === next.id && nodeName === next.nodeName);
  }
  for (let node = place; node; node = node.nextSibling) {
    if (node instanceof Element && node.id) {
      if (wanted.has(node.id)) return undefined;
      continue;
    }
    if (node.nodeType === next.nodeType && node.nodeName === next.nodeName) return node;
  }
  return undefined;
}

/**
 * @param {ChildNode} old
 * @param {Node} next
 */
function update(old, next) {
  if (!(old instanceof Element) || !(next instanceof Element)) {
    if (old.nodeValue !== next.nodeValue) old.nodeValue = next.nodeValue;
    return;
  }
  // Live text and fetched parts are not the server's to say.
  if (old.hasAttribute("data-keep")) return;
  if (old.hasAttribute("data-loaded")) return syncAttributes(old, next);
  if (old.isEqualNode(next)) return;
  morph(old, next);
}
