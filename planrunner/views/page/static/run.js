// The page of a run: the scrubber, drawers that are fetched when they are opened, and live updates. Without this file a
// past moment is a link, a drawer a page of its own address, and the page is as it was when it was loaded.
'use strict';
const run = $('#run');
let story = JSON.parse($('#events-data').textContent), shown = {}, nodes = new Map(), timer = 0;
const range = $('#moment');
const last = () => story.moments.length - 1;
const isPast = () => +range.value < last();

// ---- the state at a moment is a fold over the changes up to it
function stateAt(at) {
  const state = {};
  for (let i = 0; i <= at; i++) Object.assign(state, story.moments[i][4]);
  return at === last() ? Object.assign(state, story.now) : state;
}
const signOf = index => index === undefined ? story.none : story.signs[index];
const clock = at => new Date((at + story.zone) * 1000).toISOString().slice(11, 19);

function paint(node, [state, icon, word]) {
  const holder = node.matches('li') ? $('a.t', node) : node.matches('.live') ? $('.st', node) : node;
  if (holder.dataset.s === state && holder.dataset.icon === icon) return;
  holder.dataset.s = state; holder.dataset.icon = icon;
  $('use', holder)?.setAttribute('href', '#i-' + icon);
  const spin = node.matches('.live') ? $('.i', holder) : null;
  spin?.classList.toggle('spin', icon === 'run');
  if (node.matches('.live')) holder.lastChild.data = word;
  const said = $('.stw', node); if (said) said.textContent = word;
  if (node.matches('.node')) node.setAttribute('aria-label', node.getAttribute('aria-label').replace(/^([^:]*)(:.*)?$/, `$1: ${word}`));
}

function collect() {
  nodes = new Map();
  const told = new Set(Object.keys(story.now));
  for (const moment of story.moments) for (const place in moment[4]) told.add(place);
  for (const node of $$('[data-task]', run)) {
    const place = node.dataset.task;
    if (!told.has(place)) continue; // it has not begun, or is not followed: it stays as the server showed it
    if (!nodes.has(place)) nodes.set(place, []);
    nodes.get(place).push(node);
  }
}

function show() {
  if (!story.moments.length) return;
  const at = +range.value, past = isPast(), [seq, time, x, say, , spent] = story.moments[at], state = stateAt(at);
  run.toggleAttribute('data-past', past);
  for (const [place, list] of nodes) for (const node of list) paint(node, signOf(state[place]));
  shown = state;
  for (const n of $$('[data-from]', run)) n.classList.toggle('later', past && +n.dataset.from > seq);
  for (const n of $$('[data-to]', run)) n.classList.toggle('later', past && (signOf(state[n.dataset.to])[0] === 'todo'));
  for (const v of $$('.veil', run)) { v.setAttribute('x', x + '%'); v.setAttribute('width', past ? 100 - x + '%' : 0); }
  for (const l of $$('.head-line', run)) for (const a of ['x1', 'x2']) l.setAttribute(a, past ? x + '%' : -9);
  $('#said b').textContent = clock(time); $('[data-n]').textContent = seq; $('[data-say]').textContent = say;
  const figures = ['$' + spent[0].toFixed(3), ...spent.slice(1).map(n => n.toLocaleString('en'))];
  if (past) for (const b of $$('[data-b]', run)) b.textContent = figures[+b.dataset.b];
  if (past) $('[data-pastsay]').textContent = `The page shows the run at ${clock(time)}, event ${seq}: ${say}.`;
  range.setAttribute('aria-valuetext', `${clock(time)}, event ${seq}: ${say}`);
  $$('button[data-now]').forEach(b => b.disabled = !past);
}

const move = by => { range.value = +range.value + by; show(); };
const stop = () => { clearInterval(timer); timer = 0; };
const toNow = () => { stop(); range.value = last(); show(); if (new URLSearchParams(location.search).has('at')) reload(true); else reload(); };
const play = () => {
  if (timer) return stop();
  if (!isPast()) range.value = 0;
  timer = setInterval(() => { move(1); if (!isPast()) stop(); }, Math.max(40, Math.min(160, 8000 / (last() + 1))));
  show();
};
range.addEventListener('input', () => { stop(); show(); });
run.addEventListener('click', event => {
  const target = event.target.closest('[data-step], [data-now], [data-play], [data-at]');
  if (!target) return;
  event.preventDefault();
  if (target.matches('[data-step]')) { stop(); move(+target.dataset.step); }
  else if (target.matches('[data-now]')) toNow();
  else if (target.matches('[data-play]')) play();
  else {
    stop();
    range.value = Math.max(0, story.moments.findLastIndex(m => m[0] <= +target.dataset.at));
    show();
    range.scrollIntoView({block: 'center'});
  }
});
document.addEventListener('keydown', e => {
  if (typing(e)) return;
  if (e.key === '[') move(-1); else if (e.key === ']') move(1); else if (e.key === 'p') play(); else return;
  e.preventDefault();
});

// ---- a drawer that is not on the page is fetched
const chosen = () => $('.pick .one.on') || $('.pick .one:target') || $('.pick .one.default');
document.addEventListener('click', async event => {
  const a = event.target.closest('a[href^="?task="]');
  if (!a || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const id = decodeURIComponent(a.hash.slice(1));
  if (!document.getElementById(id)) {
    const page = await fetched(new URL(a.href).searchParams.get('task'));
    const one = page?.getElementById(id);
    if (!one) return void (location.href = a.href);
    one.classList.remove('default');
    $('.pick').append(one);
    collect(); show();
  }
  select(id);
  for (const each of $$('.node.on, .tl li.on')) each.classList.remove('on');
  (a.closest('li') || a).classList.add('on');
});

async function fetched(task) {
  const address = new URL(location.href), query = address.searchParams;
  query.delete('at'); query.delete('task');
  if (task) query.set('task', task);
  address.hash = '';
  const answer = await fetch(address, {headers: {Accept: 'text/html'}});
  return answer.ok ? new DOMParser().parseFromString(await answer.text(), 'text/html') : null;
}

// ---- live: the page is fetched again and what differs is taken over, so that focus, folds and scroll stay
const keyOf = n => n.nodeType === 1 ? n.id || n.dataset.part || n.dataset.task || n.getAttribute('href') || '' : '';
function morph(old, fresh) {
  for (const {name, value} of [...fresh.attributes]) {
    if (name === 'open' && old.tagName === 'DETAILS') continue;
    if (name === 'value' && old.id === 'moment') continue;
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const {name} of [...old.attributes]) if (!fresh.hasAttribute(name) && !['open', 'data-icon', 'hidden', 'data-following'].includes(name)) old.removeAttribute(name);
  if (old.dataset.following !== undefined) return;
  const known = new Map(), kept = new Set();
  for (const child of old.childNodes) { const key = keyOf(child); if (key && !known.has(key)) known.set(key, child); }
  let here = old.firstChild;
  for (const next of [...fresh.childNodes]) {
    const key = keyOf(next), match = key ? known.get(key) : here && !keyOf(here) && here.nodeName === next.nodeName ? here : null;
    if (match && match.nodeName === next.nodeName && !kept.has(match)) {
      kept.add(match);
      if (match !== here) old.insertBefore(match, here); else here = here.nextSibling;
      if (match.nodeType === 1) morph(match, next); else if (match.data !== next.data) match.data = next.data;
    } else {
      kept.add(next);
      old.insertBefore(next, here);
    }
  }
  for (const child of [...old.childNodes]) if (!kept.has(child) && !(child.matches?.('.one.on'))) child.remove();
}

let busy = false, wanted = false, lastTook = 0;
const pause = () => Math.min(2000, Math.max(150, 4 * lastTook)); // a slow page is asked for less often
async function reload(clean = false) {
  if (!run.dataset.api) return;
  if (busy) { wanted = true; return; }
  busy = true;
  const began = performance.now(), open = chosen(), past = isPast(), at = past ? story.moments[+range.value][0] : 0;
  if (clean) history.replaceState(null, '', location.pathname + location.hash);
  try {
    const page = await fetched(open?.dataset.place);
    if (page) {
      const focus = document.activeElement, data = page.getElementById('events-data'), fresh = page.getElementById('run');
      story = JSON.parse(data.textContent);
      const id = chosen()?.id;  // it may have changed while the page was on its way
      morph(run, fresh);
      range.max = last();
      range.value = past ? Math.max(0, story.moments.findLastIndex(m => m[0] <= at)) : last();
      collect();
      if (id && document.getElementById(id)) select(id, false);
      show();
      if (focus !== document.activeElement && focus?.isConnected) focus.focus({preventScroll: true});
      follow();
    }
  } catch (error) { console.warn(error.message); }
  lastTook = performance.now() - began;
  busy = false;
  if (wanted) { wanted = false; setTimeout(reload, pause()); }
}

let pending = 0;
function listen() {
  const stream = new EventSource(`${run.dataset.api}/events/stream?after=${run.dataset.seq}`);
  const lost = $('.verdict.lost');
  stream.addEventListener('message', () => { if (!pending) pending = setTimeout(() => { pending = 0; reload(); }, pause()); });
  stream.addEventListener('open', () => { if (!lost.hidden) { lost.hidden = true; reload(); } });
  stream.addEventListener('error', () => {
    if (!lost.hidden) return;
    const since = $('[data-lost]', lost);
    if (since) since.textContent = clock(Date.now() / 1000);
    lost.hidden = false;
    fetch(run.dataset.api, {redirect: 'manual'}).then(answer => {
      if (answer.status === 401) $('span', lost).innerHTML = 'You are signed out. <a class="link" href="">Sign in again</a>';
    }).catch(() => null);
  });
  addEventListener('pagehide', () => stream.close());
}

// ---- the log of the open task, as it is written
let tail = null, followed = '';
const printable = text => text.replace(/\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)?/g, '').replace(/[^\n]*\r(?!\n)/g, '').replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/g, '');
function follow() {
  const one = chosen(), pre = one && $('pre[data-log]', one);
  const going = pre && $('.live .st', one)?.dataset.s === 'run' ? `${pre.dataset.log} ${pre.dataset.attempt}` : '';
  if (going === followed) return;
  tail?.close(); tail = null; followed = going;
  for (const each of $$('pre[data-following]')) delete each.dataset.following;
  if (!going) return;
  pre.dataset.following = '';
  const query = new URLSearchParams({task: pre.dataset.log, attempt: pre.dataset.attempt, after: pre.dataset.size});
  tail = new EventSource(`${run.dataset.api}/log/stream?${query}`);
  tail.addEventListener('message', event => {
    const end = pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 4;
    pre.append(printable(JSON.parse(event.data).text));
    for (let more = pre.childNodes.length - 500; more > 0; more--) pre.firstChild.remove();
    if (end) pre.scrollTop = pre.scrollHeight;
  });
  tail.addEventListener('end', () => { tail?.close(); tail = null; });
}
document.addEventListener('click', () => setTimeout(follow));

collect();
const asked = new URLSearchParams(location.search).get('at');
if (asked !== null) range.value = Math.max(0, story.moments.findLastIndex(m => m[0] <= +asked));
show();
if (run.dataset.api && location.protocol.startsWith('http')) { listen(); follow(); }
