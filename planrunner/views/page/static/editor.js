// The plan editor: the text field over its own colours, findings while typing, completion. Without this file the page
// shows the text with its findings, and a plain field with buttons does the same.
'use strict';
(() => {
  const form = $('#ed'), area = $('#src'), data = $('#notes');
  if (!form || !area || !data) return;
  const ed = $('.ed', form), code = $('.code', ed), pre = $('pre', code), gutter = $('.ln', ed), notation = ed.dataset.notation;
  const PATTERN = {
    yaml: /(?<k>(?:(?<=^ *)|(?<=^ *(?:- +)+)|(?<=[{,] *))(?:"[^"]*"|[A-Za-z_$][\w$.-]*)(?= *:(?:\s|$)))|(?<c>(?:^|(?<=\s))#.*$)|(?<v>\{\{.*?\}\})|(?<s>"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')/g,
    json: /(?<k>"(?:[^"\\]|\\.)*"(?= *:))|(?<s>"(?:[^"\\]|\\.)*")/g,
    text: /(?<k>^ *(?:plan|task|gate|params?|on (?:success|failure|always)|[a-z_]+(?= *:)|finally|tasks)\b)|(?<c>(?:^|(?<=\s))#.*$)|(?<v>\{\{.*?\}\})|(?<s>"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')/g,
  }[notation];
  const GRAVE = ['bad', 'wait', 'off'];
  let lines = area.value.split('\n'), notes = JSON.parse(data.textContent), checked = area.value, saved = area.value;
  let dirty = form.dataset.digest === '' || !!$('#plan-changes');

  // ---- the lines: only those that changed are drawn again
  const node = (name, cls, text) => { const n = document.createElement(name); if (cls) n.className = cls; if (text !== undefined) n.textContent = text; return n; };
  const icon = name => { const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg'), use = document.createElementNS('http://www.w3.org/2000/svg', 'use'); svg.setAttribute('class', 'i'); svg.setAttribute('aria-hidden', 'true'); use.setAttribute('href', '#i-' + name); svg.append(use); return svg; };
  function draw(line, text, mine) {
    line.replaceChildren();
    const cuts = new Set([0, text.length]), pieces = [];
    for (const found of text.matchAll(PATTERN)) {
      const kind = Object.keys(found.groups).find(g => found.groups[g] !== undefined);
      pieces.push([found.index, found.index + found[0].length, kind]);
      cuts.add(found.index).add(found.index + found[0].length);
    }
    for (const n of mine) cuts.add(Math.min(n.start, text.length)).add(Math.min(n.end, text.length));
    const at = [...cuts].sort((a, b) => a - b);
    for (let i = 0; i + 1 < at.length; i++) {
      const kind = pieces.find(p => p[0] <= at[i] && at[i] < p[1])?.[2] || '', mark = mine.find(n => n.start <= at[i] && at[i] < n.end);
      const part = text.slice(at[i], at[i + 1]);
      if (!kind && !mark) { line.append(part); continue; }
      const span = node(mark ? 'u' : 'span', kind, part);
      if (mark) span.dataset.s = mark.state;
      line.append(span);
    }
    const worst = GRAVE.find(s => mine.some(n => n.state === s));
    if (worst) line.dataset.s = worst; else delete line.dataset.s;
    for (const text of new Set(mine.map(n => n.text))) {
      const n = mine.find(one => one.text === text), said = node('span', 'note');
      said.dataset.s = n.state; said.append(icon(n.icon), text); line.append(said);
    }
    return worst;
  }
  const of = row => notes.filter(n => n.line === row + 1);
  // of a long text only what is near the window is drawn in colour; all else as it is, until it comes there
  const LONG = 500, HIGH = 20;
  function near() {
    if (lines.length <= LONG) return [0, lines.length];
    const above = Math.floor(-pre.getBoundingClientRect().top / HIGH);
    return [Math.max(0, above - 100), Math.min(lines.length, above + Math.ceil(innerHeight / HIGH) + 100)];
  }
  function redraw(from, to) {
    const [first, last] = near();
    for (let row = from; row < to; row++) {
      const line = pre.children[row], far = row < first || row >= last;
      if (far) { line.textContent = lines[row]; line.dataset.far = ''; continue; }
      delete line.dataset.far;
      const worst = draw(line, lines[row], of(row)), number = gutter.children[row];
      if (number && number !== rest) { if (worst) number.dataset.s = worst; else delete number.dataset.s; }
    }
  }
  const rest = node('span');
  rest.style.whiteSpace = 'pre';
  function number() {
    rest.remove();
    const most = Math.min(lines.length, LONG);
    while (gutter.children.length < most) { const a = node('a', '', gutter.children.length + 1); a.href = '#L' + a.textContent; a.tabIndex = -1; gutter.append(a); }
    while (gutter.children.length > most) gutter.lastChild.remove();
    if (lines.length > most) { rest.textContent = Array.from({length: lines.length - most}, (_, i) => most + i + 1).join('\n'); gutter.append(rest); }
  }
  function changed() {
    const now = area.value.split('\n');
    let head = 0, tail = 0;
    while (head < lines.length && head < now.length && lines[head] === now[head]) head++;
    while (tail < lines.length - head && tail < now.length - head && lines[lines.length - 1 - tail] === now[now.length - 1 - tail]) tail++;
    const gone = lines.length - head - tail, more = now.length - head - tail, by = more - gone;
    notes = notes.filter(n => n.line <= head || n.line > head + gone).map(n => n.line > head ? {...n, line: n.line + by} : n);
    for (let i = 0; i < gone; i++) pre.children[head].remove();
    const fresh = document.createDocumentFragment();
    for (let i = 0; i < more; i++) fresh.append(node('span', 'l'));
    pre.insertBefore(fresh, pre.children[head] || null);
    lines = now;
    if (by) { number(); for (let row = head; row < lines.length; row++) pre.children[row].id = 'L' + (row + 1); }
    redraw(head, by ? lines.length : head + more);
    for (let row = head; row < head + more; row++) pre.children[row].id = 'L' + (row + 1);
    return gone || more;
  }

  // ---- the field lies over the lines
  ed.classList.add('live');
  code.removeAttribute('tabindex'); code.removeAttribute('role'); code.removeAttribute('aria-label');
  pre.setAttribute('aria-hidden', 'true');
  area.setAttribute('aria-label', 'Plan'); area.removeAttribute('rows'); area.setAttribute('wrap', 'off'); area.id = 'src';
  code.append(area);
  $('.plain', form).hidden = true;
  $('.keyed', form).hidden = false;
  while (pre.children.length > LONG || pre.children.length > lines.length) pre.lastChild.remove();
  const further = document.createDocumentFragment();
  for (let row = pre.children.length; row < lines.length; row++) { const line = node('span', 'l', lines[row]); line.id = 'L' + (row + 1); line.dataset.far = ''; further.append(line); }
  pre.append(further);
  number();
  if (lines.length <= LONG) redraw(0, lines.length);
  else {
    let coming = 0;
    const colour = () => { coming = 0; const [first, last] = near(); for (let row = first; row < last; row++) if ('far' in pre.children[row].dataset) redraw(row, row + 1); };
    addEventListener('scroll', () => { coming ||= requestAnimationFrame(colour); }, {passive: true});
    colour();
  }

  // ---- findings while typing: one question at a time, the newest text last
  let timer = 0, asking = null, patience = 250;
  async function ask(url, body, signal) {
    const answer = await fetch(url, {method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify(body), signal});
    if (!answer.ok) throw new Error(answer.status + ' ' + ((await answer.json().catch(() => ({}))).detail || answer.statusText));
    return answer.json();
  }
  const PLACES = {verdict: '#verdict', findings: '#findings', graph: '#plan-graph', preview: '#plan-preview', stale: '#plan-stale'};
  async function look() {
    asking?.abort();
    const mine = asking = new AbortController(), text = area.value;
    try {
      const said = await ask(form.dataset.look, {path: form.dataset.path, text, run: form.dataset.run || ''}, mine.signal);
      if (mine !== asking || text !== area.value) return;
      checked = text; notes = said.notes; patience = 250;
      redraw(0, lines.length);
      for (const [name, html] of Object.entries(said.parts)) {
        const place = $(PLACES[name]);
        if (!place) continue;
        if (!said[name] && (name === 'graph' || name === 'preview') && $('svg.plan, .kv', place)) { $('.meta', place).textContent = 'of the last text without errors'; continue; }
        place.outerHTML = html;
      }
      const start = $('#start'), revise = $('[value=revise]');
      if (start && (dirty || !said.starts) && start.matches('a')) { const b = node('button', '', start.textContent); b.type = 'button'; b.id = 'start'; b.disabled = true; b.setAttribute('aria-describedby', 'verdict'); start.replaceWith(b); }
      if (revise) revise.disabled = !said.starts;
    } catch (error) {
      if (error.name === 'AbortError') return;
      const verdict = $('#verdict');
      verdict.dataset.s = 'wait'; $('use', verdict).setAttribute('href', '#i-doubt');
      $('div', verdict).replaceChildren(node('strong', '', 'Not checked.'), ' ' + error.message.replace(/^\d+ /, '') + '. Your text is kept; checking again soon.');
      patience = Math.min(patience * 2, 8000); later();
    }
  }
  function later() { clearTimeout(timer); timer = setTimeout(look, patience); }
  function mark() {
    const now = area.value !== saved;
    if (now === dirty && $('#saved').dataset.live) return;
    dirty = now; $('#saved').dataset.live = '1';
    $('#saved').textContent = dirty ? 'changed, not saved' : 'saved';
  }
  if ('beside' in form.dataset) look();
  area.addEventListener('input', event => { if (!changed()) return hide(); if (offers) narrow(); mark(); later(); if (event.inputType !== 'historyUndo') suggestSoon(); });
  addEventListener('beforeunload', event => { if (area.value !== saved && !leaving) event.preventDefault(); });
  let leaving = false;
  form.addEventListener('submit', () => { leaving = true; });

  // ---- writing into the field so that it can be undone
  function write(start, end, text) {
    area.focus(); area.setSelectionRange(start, end);
    if (!document.execCommand('insertText', false, text)) { area.setRangeText(text, start, end, 'end'); area.dispatchEvent(new Event('input', {bubbles: true})); }
  }
  function go(row, from = 0, to = from) {
    const start = lines.slice(0, row).reduce((sum, line) => sum + line.length + 1, 0);
    area.focus(); area.setSelectionRange(start + from, start + to);
    pre.children[row]?.scrollIntoView({block: 'nearest'});
  }
  document.addEventListener('click', event => {
    const fix = event.target.closest('[data-fix]'), link = event.target.closest('a[href^="#L"]');
    if (fix && checked === area.value) {
      const note = notes.find(n => n.id === fix.dataset.fix);
      if (!note?.edits.length) return;
      event.preventDefault();
      [...note.edits].sort((a, b) => b[0] - a[0]).forEach(e => write(...e));
      look();
    } else if (link) {
      event.preventDefault();
      const note = notes.find(n => n.id === link.dataset.id), row = +link.getAttribute('href').slice(2) - 1;
      go(note ? note.line - 1 : row, note?.start || 0, note?.end || 0);
    }
  });
  $('[value=tidy]')?.addEventListener('click', async event => {
    event.preventDefault();
    try {
      const said = await ask(form.dataset.api + '/format', {path: form.dataset.path, text: area.value});
      if (said.text !== area.value) write(0, area.value.length, said.text);
    } catch { leaving = true; form.requestSubmit(event.target); }
  });

  // ---- completion
  const list = node('ul', 'offers'), told = node('span', 'sr');
  list.id = 'offers'; list.setAttribute('role', 'listbox'); list.setAttribute('aria-label', 'Completions'); list.hidden = true;
  told.setAttribute('role', 'status');
  ed.append(list); form.append(told);
  area.setAttribute('aria-autocomplete', 'list'); area.setAttribute('aria-controls', 'offers'); area.setAttribute('aria-haspopup', 'listbox');
  let offers = null, chosen = 0, wait = 0, query = null;
  function hide() { clearTimeout(wait); query?.abort(); list.hidden = true; offers = null; area.removeAttribute('aria-activedescendant'); }
  function choose(at) {
    chosen = (at + offers.words.length) % offers.words.length;
    [...list.children].forEach((li, i) => li.setAttribute('aria-selected', i === chosen));
    list.children[chosen].scrollIntoView({block: 'nearest'});
    area.setAttribute('aria-activedescendant', 'offer-' + chosen);
  }
  const points = text => [...text].length;
  async function suggest(asked) {
    query?.abort();
    const mine = query = new AbortController(), text = area.value, at = area.selectionStart;
    try {
      const said = await ask(form.dataset.api + '/complete', {path: form.dataset.path, text, offset: points(text.slice(0, at))}, mine.signal);
      if (mine !== query || text !== area.value || at !== area.selectionStart) return;
      if (!said.words.length || (!asked && said.start === said.end)) return hide();
      const chars = [...text];
      offers = {...said, start: chars.slice(0, said.start).join('').length, end: chars.slice(0, said.end).join('').length, at, size: text.length};
      show();
      told.textContent = said.words.length + ' completions, ' + said.words[0].word;
    } catch (error) { if (error.name !== 'AbortError') hide(); }
  }
  function show() {
    list.replaceChildren(...offers.words.map((word, i) => {
      const li = node('li'); li.id = 'offer-' + i; li.setAttribute('role', 'option');
      li.append(node('b', '', word.word), node('span', 'meta', word.kind), node('span', 'about', word.about)); return li;
    }));
    place(); list.hidden = false; choose(0);
  }
  // what was offered is for the text before the last key: those that still fit stay, and replace what is typed now
  function narrow() {
    const at = area.selectionStart, by = area.value.length - offers.size, typed = area.value.slice(offers.start, at).toLowerCase();
    const words = at === offers.at + by && at >= offers.start ? offers.words.filter(w => w.word.toLowerCase().includes(typed)) : [];
    if (!words.length) return hide();
    offers = {...offers, words, end: offers.end + by, at, size: area.value.length};
    show();
  }
  function place() {
    const before = area.value.slice(0, offers.start), row = before.split('\n').length - 1, column = before.length - before.lastIndexOf('\n') - 1;
    const line = pre.children[row], box = ed.getBoundingClientRect(), range = document.createRange();
    let left = column, walker = document.createTreeWalker(line, NodeFilter.SHOW_TEXT), text;
    range.setStart(line, 0); range.collapse(true);
    while ((text = walker.nextNode())) { if (left <= text.length) { range.setStart(text, left); break; } left -= text.length; }
    const spot = range.getClientRects()[0] || line.getBoundingClientRect();
    list.style.left = Math.max(8, Math.min(spot.left - box.left - 8, ed.clientWidth - 348)) + 'px';
    list.style.top = line.getBoundingClientRect().bottom - box.top + 2 + 'px';
  }
  function accept() {
    const word = offers.words[chosen], {start, end} = offers;
    hide(); write(start, end, word.text);
    if (word.kind === 'key' || word.text.endsWith('.')) { hide(); clearTimeout(wait); wait = setTimeout(() => suggest(true), 150); }
  }
  function suggestSoon() {
    clearTimeout(wait);
    const before = area.value.slice(0, area.selectionStart).split('\n').pop();
    if (/[\w.*-]$|\{\{ ?$/.test(before)) wait = setTimeout(() => suggest(false), 120); else hide();
  }
  list.addEventListener('mousedown', event => { const li = event.target.closest('li'); if (li) { event.preventDefault(); chosen = [...list.children].indexOf(li); accept(); } });
  area.addEventListener('blur', hide);
  area.addEventListener('click', hide);

  // ---- keys of the field
  area.addEventListener('keydown', event => {
    const {key, ctrlKey, metaKey} = event;
    if (offers && !list.hidden) {
      if (key === 'ArrowDown' || key === 'ArrowUp') { event.preventDefault(); return choose(chosen + (key === 'ArrowDown' ? 1 : -1)); }
      if (key === 'Enter' || key === 'Tab') { event.preventDefault(); return accept(); }
      if (key === 'Escape') { event.preventDefault(); event.stopPropagation(); return hide(); }
    }
    if (key === ' ' && (ctrlKey || metaKey)) { event.preventDefault(); suggest(true); }
    else if (key === 's' && (ctrlKey || metaKey)) { event.preventDefault(); form.requestSubmit($('button[value=save]')); }
    else if (key === 'F8') {
      event.preventDefault();
      const row = area.value.slice(0, area.selectionStart).split('\n').length, order = [...notes].sort((a, b) => a.line - b.line || a.start - b.start);
      const next = order.find(n => n.line > row) || order[0];
      if (next) go(next.line - 1, next.start, next.end);
    } else if (key === 'Enter' && !event.shiftKey && notation !== 'json') {
      event.preventDefault();
      const line = area.value.slice(0, area.selectionStart).split('\n').pop(), indent = line.match(/^ */)[0];
      const deeper = /:\s*(?:[|>][+-]?)?$/.test(line) ? (/^ *- /.test(line) ? '    ' : '  ') : /^ *- [\w-]+:/.test(line) ? '  ' : '';
      write(area.selectionStart, area.selectionEnd, '\n' + indent + deeper);
    } else if (key === 'Tab' && !event.shiftKey && !escaped) { event.preventDefault(); write(area.selectionStart, area.selectionEnd, '  '); }
    escaped = key === 'Escape';
  });
  let escaped = false;
})();
