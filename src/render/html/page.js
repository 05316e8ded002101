'use strict';
// The picture is in the document; this script draws its arrows, pans and zooms it, and shows the details of its boxes.
(() => {
  const get = id => document.getElementById(id);
  const stage = get('stage'), canvas = get('canvas'), panel = get('panel'), search = get('search');
  const data = JSON.parse(get('data').textContent);
  const boxes = new Map();
  for (const box of canvas.querySelectorAll('.node')) boxes.set(+box.dataset.n, box);
  const make = (name, text, cls) => {
    const element = document.createElement(name);
    if (text !== undefined) element.textContent = text;
    if (cls) element.className = cls;
    return element;
  };
  const draw = (name, attributes, text) => {
    const element = document.createElementNS('http://www.w3.org/2000/svg', name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const lines = draw('svg', { id: 'lines', 'aria-hidden': 'true' });
  canvas.append(lines);
  document.documentElement.classList.add('js');

  // Tasks are distributed over columns in turn.
  const tasks = [...canvas.children].filter(e => e.classList.contains('task'));
  if (tasks.length > 3) {
    const columns = Array.from({ length: Math.min(8, Math.ceil(Math.sqrt(tasks.length))) }, () => {
      const column = make('div', undefined, 'column');
      column.style.cssText = 'display:flex;flex-direction:column;gap:24px';
      canvas.insertBefore(column, lines);
      return column;
    });
    tasks.forEach((task, i) => columns[i % columns.length].append(task));
  }

  // --- pan and zoom
  let scale = 1, left = 0, top = 0;
  const place = () => { canvas.style.transform = `translate(${left}px,${top}px) scale(${scale})`; };
  const zoom = (factor, x = stage.clientWidth / 2, y = stage.clientHeight / 2) => {
    const next = Math.min(4, Math.max(0.05, scale * factor));
    left = x - (x - left) * next / scale;
    top = y - (y - top) * next / scale;
    scale = next;
    place();
  };
  const fit = () => {
    const room = stage.clientWidth - (panel.hidden ? 0 : panel.offsetWidth);
    const whole = Math.min(room / canvas.offsetWidth, stage.clientHeight / canvas.offsetHeight);
    // A long plan starts at the top in a readable size instead of being shrunk to fit.
    scale = Math.min(1, Math.max(whole, Math.min(0.7, room / canvas.offsetWidth)));
    left = Math.max(0, (room - canvas.offsetWidth * scale) / 2);
    top = 0;
    place();
  };
  const show = element => {
    const a = element.getBoundingClientRect(), b = stage.getBoundingClientRect();
    const right = b.right - (panel.hidden ? 0 : panel.offsetWidth);
    const inside = a.left >= b.left && a.right <= right && a.top >= b.top && a.bottom <= b.bottom;
    if (inside) return;
    left += (b.left + right) / 2 - (a.left + a.right) / 2;
    top += (b.top + b.bottom) / 2 - (a.top + a.bottom) / 2;
    place();
  };
  stage.addEventListener('wheel', event => {
    event.preventDefault();
    const box = stage.getBoundingClientRect();
    if (event.ctrlKey || event.metaKey) {
      zoom(Math.exp(-event.deltaY / 200), event.clientX - box.left, event.clientY - box.top);
    } else {
      left -= event.deltaX;
      top -= event.deltaY;
      place();
    }
  }, { passive: false });
  const pointers = new Map();
  let moved = false;
  stage.addEventListener('pointerdown', event => {
    if (event.button) return;
    pointers.set(event.pointerId, event);
    moved = false;
  });
  stage.addEventListener('pointermove', event => {
    const before = pointers.get(event.pointerId);
    if (!before) return;
    const dx = event.clientX - before.clientX, dy = event.clientY - before.clientY;
    if (!moved && Math.hypot(dx, dy) < 4) return;
    moved = true;
    stage.classList.add('moving');
    const other = [...pointers.values()].find(p => p.pointerId !== event.pointerId);
    if (other) {
      const gap = p => Math.hypot(p.clientX - other.clientX, p.clientY - other.clientY);
      const box = stage.getBoundingClientRect();
      zoom(gap(event) / Math.max(1, gap(before)), other.clientX - box.left, other.clientY - box.top);
    } else {
      left += dx;
      top += dy;
      place();
    }
    pointers.set(event.pointerId, event);
  });
  for (const end of ['pointerup', 'pointercancel', 'pointerleave']) {
    stage.addEventListener(end, event => {
      pointers.delete(event.pointerId);
      stage.classList.remove('moving');
    });
  }
  stage.addEventListener('scroll', () => { stage.scrollTop = stage.scrollLeft = 0; });
  canvas.addEventListener('focusin', event => {
    stage.scrollTop = stage.scrollLeft = 0;
    if (event.target.matches(':focus-visible')) show(event.target);
  });

  // --- arrows
  let chosen = null;
  /** The box itself, or the folded frame that hides it. */
  const seen = key => {
    let element = boxes.get(key);
    let hidden = null;
    for (let e = element; e && e !== canvas; e = e.parentElement) {
      if (!e.classList.contains('folded')) continue;
      const nest = e.classList.contains('nest');
      const first = nest && e.querySelector('.node');
      if (first !== element) hidden = first || e;
    }
    return hidden || element;
  };
  const arrows = () => {
    lines.replaceChildren();
    for (const task of canvas.querySelectorAll('.task')) task.style.marginLeft = task.style.marginRight = '';
    const groups = new Map();
    data.links.forEach((link, number) => {
      const from = seen(link.from), to = seen(link.to);
      const task = boxes.get(link.from).closest('.task');
      if (!task || from === to) return;
      if (!groups.has(task)) groups.set(task, []);
      groups.get(task).push({ link, from, to, number });
    });
    const plans = [];
    for (const [task, links] of groups) {
      for (const kind of ['data', 'pending']) {
        const routes = new Map();
        for (const l of links.filter(l => l.link.kind === kind)) {
          if (!routes.has(l.link.from)) routes.set(l.link.from, []);
          if (!routes.get(l.link.from).some(o => o.to === l.to && o.link.label === l.link.label)) routes.get(l.link.from).push(l);
        }
        if (!routes.size) continue;
        // Vertical positions do not depend on the width of the lanes.
        const middle = e => { const r = e.getBoundingClientRect(); return (r.top + r.bottom) / 2; };
        const spans = [...routes.values()].map(list => {
          const ys = list.map(l => middle(l.to)).concat(middle(list[0].from));
          return { list, low: Math.min(...ys), high: Math.max(...ys) };
        }).sort((a, b) => (a.high - a.low) - (b.high - b.low) || a.list[0].number - b.list[0].number);
        const lanes = [];
        for (const span of spans) {
          let lane = lanes.findIndex(taken => taken.every(t => span.high < t.low || t.high < span.low));
          if (lane < 0) lane = lanes.length < 40 ? lanes.push([]) - 1 : 39;
          lanes[lane].push(span);
          span.lane = lane;
        }
        const label = Math.min(22, Math.max(...links.filter(l => l.link.kind === kind).map(l => l.link.label.length)));
        const strip = label * 6 + 18;
        const width = strip + lanes.length * 12;
        task.style[kind === 'data' ? 'marginRight' : 'marginLeft'] = width + 'px';
        plans.push({ task, kind, spans, strip });
      }
    }
    const origin = canvas.getBoundingClientRect();
    const rect = e => {
      const head = e.classList.contains('folded') ? e.querySelector('.head') : e;
      const r = e.getBoundingClientRect(), h = head.getBoundingClientRect();
      const at = v => v / scale;
      return { left: at(r.left - origin.left), right: at(r.right - origin.left), top: at(h.top - origin.top), bottom: at(h.bottom - origin.top) };
    };
    const ports = new Map();
    const count = (e, n) => ports.set(e, (ports.get(e) || 0) + n);
    for (const { kind, spans } of plans) if (kind === 'data') for (const { list } of spans) {
      count(list[0].from, 1);
      for (const l of list) count(l.to, 1);
    }
    const used = new Map();
    const port = e => {
      const r = rect(e), n = (used.get(e) || 0) + 1;
      used.set(e, n);
      return r.top + (r.bottom - r.top) * n / (ports.get(e) + 1);
    };
    let colour = 0;
    for (const { task, kind, spans, strip } of plans) {
      const side = kind === 'data' ? 1 : -1;
      const edge = side > 0 ? rect(task).right : rect(task).left;
      spans.sort((a, b) => a.list[0].number - b.list[0].number);
      const ends = new Map();
      for (const { list } of spans) for (const l of list) ends.set(l, kind === 'data' ? port(l.to) : 0);
      for (const { list, lane } of spans) {
        const cls = kind === 'data' ? `data d${colour++ % 6}` : 'pending';
        const from = rect(list[0].from);
        const start = kind === 'data' ? port(list[0].from) : (from.top + from.bottom) / 2;
        const x = edge + side * (strip + lane * 12);
        for (const l of list) {
          const to = rect(l.to);
          const end = kind === 'data' ? ends.get(l) : (to.top + to.bottom) / 2;
          const border = r => side > 0 ? r.right : r.left;
          const turn = Math.sign(end - start), bend = Math.min(6, Math.abs(end - start) / 2);
          const involved = chosen === null ? '' : l.link.from === chosen || l.link.to === chosen ? ' strong' : ' faint';
          const tip = border(to) + side;
          lines.append(
            draw('path', { class: cls + involved, d: `M${border(from)} ${start}H${x - side * bend}Q${x} ${start} ${x} ${start + turn * bend}V${end - turn * bend}Q${x} ${end} ${x - side * bend} ${end}H${tip + side * 5}` }),
            draw('path', { class: `tip ${cls}${involved}`, d: `M${tip} ${end}l${side * 8} -3.5v7z` }),
            draw('text', { class: cls + involved, x: edge + side * 7, y: end - 3.5, 'text-anchor': side > 0 ? 'start' : 'end' }, l.link.label.length > 22 ? l.link.label.slice(0, 22) + '…' : l.link.label),
          );
        }
      }
    }
  };

  // --- folding
  const fold = (frame, folded) => {
    frame.classList.toggle('folded', folded);
    frame.querySelector('.head').setAttribute('aria-expanded', String(!folded));
  };
  const unfold = box => {
    let changed = false;
    for (let e = box.closest('.folded'); e; e = e.parentElement.closest('.folded')) {
      fold(e, false);
      changed = true;
    }
    if (changed) arrows();
  };
  const foldAll = () => {
    const all = [...canvas.querySelectorAll('.task')];
    const folded = all.some(task => !task.classList.contains('folded'));
    all.forEach(task => fold(task, folded));
    get('fold').textContent = folded ? 'Unfold all' : 'Fold all';
    arrows();
    fit();
  };
  get('fold').textContent = canvas.querySelector('.task.folded') ? 'Unfold all' : 'Fold all';

  // --- details
  const close = () => {
    const box = boxes.get(chosen);
    panel.hidden = true;
    if (box) box.classList.remove('chosen');
    chosen = null;
    arrows();
    if (box) box.focus();
  };
  const choose = key => {
    if (chosen !== null) boxes.get(chosen).classList.remove('chosen');
    chosen = key;
    const box = boxes.get(key), node = data.nodes[key];
    unfold(box);
    box.classList.add('chosen');
    const shut = make('button', '×');
    shut.id = 'close';
    shut.title = 'close (Esc)';
    shut.setAttribute('aria-label', 'close');
    shut.addEventListener('click', close);
    panel.replaceChildren(shut, make('h2', node.id));
    if (node.task && node.task !== node.id) panel.append(make('p', node.task, 'soft'));
    panel.append(make('p', node.meaning));
    const facts = (title, list) => {
      if (!list.length) return;
      if (title) panel.append(make('h3', title));
      const dl = make('dl');
      for (const [name, value] of list) dl.append(make('dt', name), make('dd', value));
      panel.append(dl);
    };
    facts('', node.facts);
    const flow = (title, links, end) => {
      if (!links.length) return;
      panel.append(make('h3', title));
      const list = make('ul');
      for (const link of links) {
        const other = make('button', `${link.label} · ${data.nodes[link[end]].id}`);
        other.addEventListener('click', () => { choose(link[end]); boxes.get(link[end]).focus(); });
        const item = make('li');
        item.append(other);
        list.append(item);
      }
      panel.append(list);
    };
    const of = (kind, end) => data.links.filter(l => l.kind === kind && l[end] === key);
    flow('Uses', of('data', 'to'), 'from');
    flow('Provides', of('data', 'from'), 'to');
    flow('Cleanups pending once it has started', of('pending', 'from'), 'to');
    flow('Pending once these have started', of('pending', 'to'), 'from');
    if (node.source) panel.append(make('h3', node.place), make('pre', node.source));
    else if (node.place) panel.append(make('p', node.place, 'soft'));
    const task = data.tasks.find(t => t.name === node.task);
    if (task && node.phase) facts(`Task ${task.name}`, task.facts);
    panel.hidden = false;
    panel.scrollTop = 0;
    arrows();
    show(box);
  };
  canvas.addEventListener('click', event => {
    if (moved) { moved = false; return; }
    const box = event.target.closest('.node'), head = event.target.closest('.head');
    if (box) {
      if (chosen === +box.dataset.n) close(); else choose(+box.dataset.n);
    } else if (head) {
      fold(head.parentElement, !head.parentElement.classList.contains('folded'));
      arrows();
    }
  });

  // --- search
  let hits = [], hit = -1;
  const text = data.nodes.map(n => [n.id, n.task, n.meaning, n.source || ''].join('\n').toLowerCase());
  const find = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    canvas.classList.toggle('searching', words.length > 0);
    hits = [];
    for (const [key, box] of boxes) {
      const found = words.length > 0 && words.every(w => text[key].includes(w));
      box.classList.toggle('hit', found);
      if (found) hits.push(key);
    }
    hit = -1;
    get('found').textContent = words.length ? `${hits.length} found` : '';
  };
  search.addEventListener('input', find);
  search.addEventListener('keydown', event => {
    if (event.key === 'Enter' && hits.length) {
      hit = (hit + (event.shiftKey ? hits.length - 1 : 1) + (hit < 0 && event.shiftKey ? 1 : 0)) % hits.length;
      get('found').textContent = `${hit + 1} of ${hits.length}`;
      choose(hits[hit]);
    } else if (event.key === 'Escape') {
      search.value = '';
      find();
      stage.focus();
      event.stopPropagation();
    }
  });

  // --- keys
  get('in').addEventListener('click', () => zoom(1.25));
  get('out').addEventListener('click', () => zoom(0.8));
  get('fit').addEventListener('click', fit);
  get('fold').addEventListener('click', foldAll);
  document.addEventListener('keydown', event => {
    if (event.target === search || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = 60, arrow = { ArrowLeft: [step, 0], ArrowRight: [-step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] }[event.key];
    if (arrow && !panel.contains(event.target)) {
      left += arrow[0];
      top += arrow[1];
      place();
    } else if (event.key === '/') search.focus();
    else if (event.key === '+' || event.key === '=') zoom(1.25);
    else if (event.key === '-') zoom(0.8);
    else if (event.key === '0') fit();
    else if (event.key === 'f') foldAll();
    else if (event.key === 'Escape' && chosen !== null) close();
    else return;
    event.preventDefault();
  });
  new ResizeObserver(() => { if (chosen === null) fit(); }).observe(stage);
  arrows();
  fit();
})();
