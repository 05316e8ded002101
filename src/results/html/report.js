'use strict';
// The overview is parsed immediately; the details of a run are parsed when it is opened. Everything that an author, an agent or
// a server wrote is inserted as text.
(() => {
  const get = id => document.getElementById(id);
  const index = JSON.parse(get('index').textContent);
  const list = get('list'), rows = get('rows'), detail = get('detail'), search = get('search');
  /** Replaces characters that are invisible or change the text direction. */
  const seen = text => String(text).replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '\ufffd');
  const make = (name, cls, text) => {
    const element = document.createElement(name);
    if (cls) element.className = cls;
    if (text !== undefined && text !== null) element.textContent = seen(text);
    return element;
  };
  const add = (parent, ...children) => { for (const c of children) if (c) parent.append(c); return parent; };
  const [OUTCOME, SECONDS, TOKENS, COST, WHY, SIDE, NUMBER, CLEANUP] = [0, 1, 2, 3, 4, 5, 6, 7];
  const runs = index.runs, sides = index.sides, compared = index.compared;
  const KNOWN = new Set(['passed', 'failed', 'broken', 'skipped', 'cancelled', 'unchecked']);
  const kind = outcome => KNOWN.has(outcome) ? outcome : '';
  const plural = (n, one, many) => `${n} ${n === 1 ? one : many || one + 's'}`;
  const time = s => s === null || s === undefined ? '' : s < 1 ? `${Math.round(s * 1000)} ms` : s < 60 ? `${s.toFixed(1)} s` : `${Math.floor(s / 60)} min ${Math.round(s % 60)} s`;
  const number = n => n === null || n === undefined ? '' : n.toLocaleString('en');
  const mean = list => { const known = list.filter(n => n !== null && n !== undefined); return known.length ? known.reduce((a, b) => a + b, 0) / known.length : null; };

  // --- the state of each task
  const FAILURES = ['failed', 'broken', 'unchecked', 'cancelled'];
  const tasks = index.tasks.map((task, at) => {
    const all = task.sides.flat();
    // In a comparison of before and now, only now counts; with agents or models side by side, all of them count.
    const now = task.sides[task.sides.length - 1];
    const last = compared && now.length ? now : all;
    const bad = last.filter(r => runs[r][OUTCOME] !== 'passed');
    const unclean = last.find(r => runs[r][CLEANUP]);
    const shown = bad.length ? bad[0] : unclean ?? last[0];
    const of = key => mean(last.map(r => runs[r][key]));
    const slower = compared && task.sides.every(s => s.length) && (() => {
      const [a, b] = task.sides.map(s => mean(s.map(r => runs[r][SECONDS])));
      return a !== null && b !== null && b > a * 1.5 && b - a > 1;
    })();
    const kinds = new Set(last.map(r => runs[r][OUTCOME]));
    if (task.rates.some(rate => rate && rate.flaky)) kinds.add('flaky');
    if (task.change) kinds.add(task.change);
    if (slower) kinds.add('slower');
    if (last.some(r => runs[r][CLEANUP])) kinds.add('cleanup failed');
    // A task passed only if all its runs passed.
    if (bad.length) { kinds.add('not passed'); kinds.delete('passed'); }
    return {
      ...task, at, all, shown, kinds, slower,
      passed: bad.length === 0, rate: last.length ? 1 - bad.length / last.length : 0,
      why: bad.length || unclean !== undefined ? runs[shown][WHY] : '', seconds: of(SECONDS), tokens: of(TOKENS), cost: of(COST),
      text: [task.name, task.path, ...(task.tags || []), ...all.map(r => runs[r][WHY])].join('\n').toLowerCase(),
    };
  });

  // --- the sides
  for (const side of sides) {
    const box = make('div', 'side');
    const head = make('b', '', `${side.passed} of ${plural(side.runs, 'run')} passed`);
    const who = [side.agent, side.model].filter(Boolean).join(' · ');
    const rate = side.runs ? `${(side.passed / side.runs * 100).toFixed(1)} %${side.interval && `, with 95 % confidence ${side.interval}`}` : '';
    const judge = side.judge ? `judge ${number(side.judge.in || 0)} in, ${number(side.judge.out || 0)} out${side.judge.estimated ? ', estimated' : ''}` : '';
    const used = [time(side.seconds), side.tokens ? `${number(side.tokens)} tokens` : '', side.cost ? `${side.cost.toFixed(4)} ${side.currency}` : '', judge];
    const bar = make('span', 'bar'), part = make('i');
    part.style.width = side.runs ? `${side.passed / side.runs * 100}%` : '0';
    add(box, head, add(bar, part), make('div', '', rate), make('div', '', [who, ...used].filter(Boolean).join(' · ')));
    const name = make('div', '', [side.name, side.started.slice(0, 19).replace('T', ' ')].filter(Boolean).join(' · '));
    name.title = side.name;
    box.append(name);
    if (side.gaps.length) box.append(make('div', 'bad', `incomplete: ${side.gaps.slice(0, 3).join('; ')}${side.gaps.length > 3 ? ` and ${side.gaps.length - 3} more` : ''}`));
    if (side.cleanups) box.append(make('div', 'bad', `${plural(side.cleanups, 'cleanup')} failed`));
    get('sides').append(box);
  }
  if (index.together) get('sides').append(make('div', 'together', index.together));
  if (index.cut) get('sides').append(make('div', 'together', `Details of ${plural(index.cut, 'run')} are omitted because the page would be too large; gevals result view shows them.`));

  // --- short names of sides
  const who = nth => {
    const { agent, model, name } = sides[nth];
    const own = [agent, model].filter(Boolean).join(' ');
    return own && sides.every((s, other) => other === nth || [s.agent, s.model].filter(Boolean).join(' ') !== own) ? own : name;
  };
  const letter = nth => String.fromCharCode(65 + nth % 26) + (nth < 26 ? '' : Math.floor(nth / 26));

  // --- filters
  let wanted = '';
  const chips = [['', 'All'], ['not passed', 'Not passed'], ['failed', 'Failed'], ['broken', 'Broken'], ['unchecked', 'Unchecked'], ['cancelled', 'Cancelled'], ['cleanup failed', 'Cleanup failed'], ['flaky', 'Flaky'], ['passed', 'Passed'], ['regression', 'Regressions'], ['loss', 'Losses'], ['improvement', 'Improvements'], ['gain', 'Gains'], ['slower', 'Slower'], ['new', 'New'], ['gone', 'Gone']];
  const chipOf = new Map();
  for (const [key, name] of chips) {
    const count = key ? tasks.filter(t => t.kinds.has(key)).length : tasks.length;
    if (key && !count) continue;
    const chip = make('button', 'chip', `${name} ${count}`);
    chip.type = 'button';
    chip.addEventListener('click', () => { wanted = key; filter(); });
    chipOf.set(key, chip);
    get('chips').append(chip);
  }
  const choices = (id, first, values) => {
    const select = get(id);
    const option = (value, text) => { const o = make('option', '', text); o.value = value; select.append(o); };
    option('', first);
    for (const value of [...new Set(values)].sort()) option(value, value);
    select.hidden = select.options.length < 2;
    select.addEventListener('change', () => filter());
    return select;
  };
  const difficulty = choices('difficulty', 'any difficulty', tasks.map(t => t.difficulty).filter(Boolean));
  const tag = choices('tag', 'any tag', tasks.flatMap(t => t.tags || []));
  const sort = get('sort');
  const CHANGE = { regression: 0, gone: 1, loss: 2, gain: 4, improvement: 5, new: 6 };
  const severity = t => (t.change ? CHANGE[t.change] : 3) * 10 + (t.passed ? 5 : t.kinds.has('failed') ? 0 : 1);
  const ORDERS = {
    'worst first': (a, b) => severity(a) - severity(b) || a.at - b.at,
    'as run': (a, b) => a.at - b.at,
    'by name': (a, b) => a.name < b.name ? -1 : a.name > b.name ? 1 : 0,
    'by pass rate': (a, b) => a.rate - b.rate || a.at - b.at,
    'slowest first': (a, b) => (b.seconds || 0) - (a.seconds || 0) || a.at - b.at,
    'most tokens first': (a, b) => (b.tokens || 0) - (a.tokens || 0) || a.at - b.at,
    'most expensive first': (a, b) => (b.cost || 0) - (a.cost || 0) || a.at - b.at,
  };
  for (const name of Object.keys(ORDERS)) { const o = make('option', '', name); o.value = name; sort.append(o); }
  sort.addEventListener('change', () => filter());
  let shown = [], chosen = null, current = null, opened = false;
  const filter = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    shown = tasks.filter(t => (!wanted || t.kinds.has(wanted)) && (!difficulty.value || t.difficulty === difficulty.value)
      && (!tag.value || (t.tags || []).includes(tag.value)) && words.every(w => t.text.includes(w)));
    shown.sort(ORDERS[sort.value]);
    for (const [key, chip] of chipOf) chip.setAttribute('aria-pressed', String(key === wanted));
    get('found').textContent = shown.length === tasks.length ? '' : `${shown.length} of ${tasks.length}`;
    rows.style.height = `${shown.length * ROW}px`;
    list.scrollTop = 0;
    draw();
    if (opened && !chosen) overview();
  };
  search.addEventListener('input', () => filter());

  // --- the list: only visible rows are in the document
  const ROW = 50;
  const row = (task, at) => {
    const element = make('div', 'row');
    element.style.top = `${at * ROW}px`;
    element.setAttribute('role', 'option');
    element.id = `t${task.at}`;
    element.setAttribute('aria-selected', String(task === chosen));
    element.setAttribute('aria-setsize', shown.length);
    element.setAttribute('aria-posinset', at + 1);
    const name = make('div', 'name');
    name.dir = 'auto';
    // With agents or models side by side, each has one dot.
    const beside = !compared && sides.length > 1;
    if (beside) {
      const dots = make('span', 'dots');
      task.rates.slice(0, 12).forEach((rate, nth) => {
        const dot = make('i', `dot ${!rate ? '' : rate.passed === rate.runs ? 'passed' : rate.passed ? 'mixed' : 'failed'}`);
        dot.title = `${who(nth)}: ${rate ? `${rate.passed} of ${plural(rate.runs, 'run')} passed` : 'not run'}`;
        dots.append(dot);
      });
      if (task.rates.length > 12) dots.append(make('span', 'more', `+${task.rates.length - 12}`));
      name.append(dots);
    } else task.sides.forEach((side, nth) => {
      const dots = make('span', 'dots');
      for (const r of side.slice(0, 10)) {
        const dot = make('i', `dot ${kind(runs[r][OUTCOME])}`);
        dot.title = `${sides.length > 1 ? sides[nth].name + ' · ' : ''}run ${runs[r][NUMBER]}: ${runs[r][OUTCOME]}`;
        dots.append(dot);
      }
      if (side.length > 10) dots.append(make('span', 'more', `+${side.length - 10}`));
      if (nth) dots.prepend(make('span', 'more', '→'));
      name.append(dots);
    });
    name.append(seen(task.name));
    for (const mark of ['flaky', 'slower', 'cleanup failed']) if (task.kinds.has(mark)) name.append(make('span', `tagged ${mark === 'slower' ? '' : 'flaky'}`, mark));
    if (task.change) name.append(make('span', `tagged ${task.change}`, task.change));
    if (task.difficulty) name.append(make('span', 'tagged', task.difficulty));
    const rates = beside ? [`${task.all.filter(r => runs[r][OUTCOME] === 'passed').length}/${task.all.length}`] : task.rates.filter(Boolean).map(r => r.runs > 1 ? `${r.passed}/${r.runs}${r.interval && ` (${r.interval})`}` : `${r.passed} of 1`);
    const num = make('div', 'num', [rates.join(' → '), time(task.seconds), task.tokens ? `${number(Math.round(task.tokens))} tok` : ''].filter(Boolean).join(' · '));
    const why = make('div', `why${task.why ? '' : ' fine'}`, task.why || task.path);
    why.dir = 'auto';
    why.title = task.why;
    element.addEventListener('click', () => choose(task));
    return add(element, name, num, why);
  };
  const draw = () => {
    const from = Math.max(0, Math.floor(list.scrollTop / ROW) - 5);
    const to = Math.min(shown.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + 5);
    rows.replaceChildren(...shown.slice(from, to).map((task, i) => row(task, from + i)));
    if (chosen) list.setAttribute('aria-activedescendant', `t${chosen.at}`);
  };
  let waiting = false;
  list.addEventListener('scroll', () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; draw(); });
  });
  new ResizeObserver(() => draw()).observe(list);
  const choose = (task, run) => {
    chosen = task;
    get('overview').setAttribute('aria-pressed', 'false');
    const at = shown.indexOf(task);
    if (at >= 0) {
      if (at * ROW < list.scrollTop) list.scrollTop = at * ROW;
      if ((at + 1) * ROW > list.scrollTop + list.clientHeight) list.scrollTop = (at + 1) * ROW - list.clientHeight;
    }
    draw();
    show(task, run === undefined ? task.shown : run);
  };
  // --- the overview: pass rates with confidence intervals, and pairwise comparisons
  const MOST_ROWS = 200;
  const table = (heads, lines) => {
    const head = make('tr');
    for (const text of heads) head.append(text instanceof Node ? text : make('th', '', text));
    return add(make('div', 'scroll'), add(make('table'), add(make('thead'), head), add(make('tbody'), ...lines.map(cells => add(make('tr'), ...cells)))));
  };
  /** A cell with a rate and its confidence interval; the color shows the rate. */
  const rated = rate => {
    if (!rate) return make('td', 'soft', '–');
    const cell = make('td', `rate ${rate.passed === rate.runs ? 'all' : rate.passed ? 'some' : 'none'}`, `${rate.passed}/${rate.runs} `);
    cell.title = `${rate.passed} of ${plural(rate.runs, 'run')} passed${rate.interval && `; with 95 % confidence the pass rate is ${rate.interval}`}`;
    return add(cell, make('small', '', rate.interval));
  };
  const th = nth => { const head = make('th', '', sides.length > 1 ? `${letter(nth)} ${who(nth)}` : 'passed'); head.title = sides[nth].name; return head; };
  const overview = () => {
    chosen = null;
    current = null;
    draw();
    detail.replaceChildren();
    detail.scrollTop = 0;
    detail.append(make('h2', '', 'Overview'));
    get('overview').setAttribute('aria-pressed', 'true');
    if (index.duels.length) {
      detail.append(make('h3', '', 'Which beats which'));
      const won = index.duels.flatMap((row, a) => row.flatMap((cell, b) => cell && cell.beats && cell.alone > cell.other ? [[a, b, cell]] : []));
      for (const [a, b, cell] of won) detail.append(add(make('p'), make('b', '', `${letter(a)} ${who(a)}`), ' beats ', make('b', '', `${letter(b)} ${who(b)}`), make('span', 'soft', ` · ${cell.p} · of ${plural(cell.pairs, 'pair')} of runs ${cell.alone} passed with ${letter(a)} alone, ${cell.other} with ${letter(b)} alone`)));
      if (!won.length) detail.append(make('p', '', 'No difference is statistically significant.'));
      detail.append(table(['', ...sides.map((_, nth) => th(nth))], index.duels.map((row, a) => [th(a), ...row.map(cell => {
        const box = make('td', cell && cell.beats ? cell.alone > cell.other ? 'rate all' : 'rate none' : cell ? '' : 'soft', cell ? `${cell.alone}:${cell.other}${cell.beats ? ' *' : ''}` : '–');
        if (cell) box.title = cell.p;
        return box;
      })])));
      detail.append(make('p', 'soft', 'Runs of the same tasks that only the one in the row passed : that only the one in the column passed. * significant (exact McNemar test, alpha 0.05, Holm correction over the pairs)'));
    }
    if (index.groups.length) {
      detail.append(make('h3', '', 'By difficulty and tag'));
      detail.append(table(['', '', ...sides.map((_, nth) => th(nth))], index.groups.map(group => {
        const name = make('th'), button = make('button', 'link', group.name);
        button.type = 'button';
        button.addEventListener('click', () => { get(group.kind).value = group.name; filter(); });
        return [make('td', 'soft', group.kind), add(name, button), ...group.rates.map(rated)];
      })));
      detail.append(make('p', 'soft', 'Runs that passed, with the 95 % confidence interval of the pass rate (Wilson)'));
    }
    if (sides.some(side => side.several.length)) {
      const ks = [...new Set(sides.flatMap(side => side.several.map(one => one.k)))].sort((a, b) => a - b);
      const share = (side, k, key) => { const one = side.several.find(one => one.k === k); return make('td', one ? '' : 'soft', one ? `${(one[key] * 100).toFixed(1)} %` : '–'); };
      detail.append(make('h3', '', 'Pass rates of several runs'));
      detail.append(table(['', ...ks.map(k => `k = ${k}`)], sides.flatMap((side, nth) => [['any', 'pass@k, at least one of k passes'], ['all', 'pass^k, all of k pass']].map(([key, name]) => [make('th', '', `${sides.length > 1 ? letter(nth) + ' ' : ''}${name}`), ...ks.map(k => share(side, k, key))]))));
      detail.append(make('p', 'soft', 'Unbiased estimates, averaged over the tasks. For the uncertainty of the rate at k = 1, see the interval of each side.'));
    }
    detail.append(make('h3', '', sides.length > 1 ? 'Tasks by agent and model' : 'Tasks'));
    detail.append(table(['', ...sides.map((_, nth) => th(nth))], shown.slice(0, MOST_ROWS).map(task => {
      const name = make('th'), button = make('button', 'link', task.name);
      button.type = 'button';
      button.dir = 'auto';
      button.addEventListener('click', () => choose(task));
      return [add(name, button), ...task.rates.map((rate, nth) => {
        const cell = rated(rate);
        if (rate) {
          cell.classList.add('pick');
          cell.addEventListener('click', () => choose(task, task.sides[nth].find(r => runs[r][OUTCOME] !== 'passed') ?? task.sides[nth][0]));
        }
        return cell;
      })];
    })));
    if (shown.length > MOST_ROWS) detail.append(make('p', 'soft', `The first ${MOST_ROWS} of ${number(shown.length)} tasks, in the order of the list; use search and filters to show others.`));
  };
  get('overview').addEventListener('click', () => overview());
  const move = by => {
    if (!shown.length) return;
    const at = shown.indexOf(chosen);
    choose(shown[Math.min(shown.length - 1, Math.max(0, at < 0 ? 0 : at + by))]);
  };
  const moveToBad = by => {
    for (let at = shown.indexOf(chosen) + by; at >= 0 && at < shown.length; at += by) if (!shown[at].passed) return choose(shown[at]);
  };

  // --- details
  // One line per run; empty if the details are omitted.
  const records = get('details').textContent.split('\n'), parsed = new Map();
  const details = run => {
    if (!parsed.has(run)) parsed.set(run, records[run] ? JSON.parse(records[run]) : null);
    return parsed.get(run);
  };
  /** A location; a link if the page has a base URL for sources. */
  const place = text => {
    if (!text) return null;
    const [, path, line] = /^(.*?)(?::(\d+))?$/s.exec(text);
    if (!index.link || path.startsWith('/') || path.split('/').includes('..')) return make('code', 'soft', text);
    const link = make('a', '', text);
    link.href = index.link + path.split('/').map(encodeURIComponent).join('/') + (line ? `#L${line}` : '');
    link.target = '_blank';
    link.rel = 'noopener noreferrer';
    return link;
  };
  const pre = text => { const e = make('pre', '', text); e.dir = 'auto'; return e; };
  const labelled = (label, text, cls) => add(make('div', cls), make('div', 'label', label), pre(text));
  const json = value => typeof value === 'string' ? value : JSON.stringify(value, null, 1);
  /** For each line of two texts: whether only that text contains it. */
  const unlike = (a, b) => {
    if (a.length * b.length > 250000) return [a.map(() => true), b.map(() => true)];
    const long = Array.from({ length: a.length + 1 }, () => new Uint32Array(b.length + 1));
    for (let i = a.length - 1; i >= 0; i--) for (let j = b.length - 1; j >= 0; j--) long[i][j] = a[i] === b[j] ? long[i + 1][j + 1] + 1 : Math.max(long[i + 1][j], long[i][j + 1]);
    const one = a.map(() => true), other = b.map(() => true);
    for (let i = 0, j = 0; i < a.length && j < b.length;) {
      if (a[i] === b[j]) { one[i++] = false; other[j++] = false; } else if (long[i + 1][j] >= long[i][j + 1]) i++; else j++;
    }
    return [one, other];
  };
  const sideBySide = (expected, actual) => {
    const box = make('div', 'sidebyside');
    const a = expected.split('\n'), b = actual.split('\n');
    const half = (name, cls) => { const p = make('pre'); p.dir = 'auto'; return [add(make('div', cls), make('div', 'label', name), p), p]; };
    const [left, leftPre] = half('expected', 'expected'), [right, rightPre] = half('actual', 'actual');
    if (a.length === 1 && b.length === 1) {
      let from = 0, end = 0;
      while (from < Math.min(expected.length, actual.length) && expected[from] === actual[from]) from++;
      while (end < Math.min(expected.length, actual.length) - from && expected[expected.length - 1 - end] === actual[actual.length - 1 - end]) end++;
      // If nearly everything differs, marks are useless.
      const worth = from + end > 3;
      for (const [p, text] of [[leftPre, expected], [rightPre, actual]]) {
        if (worth) p.append(seen(text.slice(0, from)), make('mark', '', text.slice(from, text.length - end)), seen(text.slice(text.length - end)));
        else p.textContent = seen(text) || '(empty)';
      }
    } else {
      const [one, other] = unlike(a, b);
      for (const [p, texts, marks] of [[leftPre, a, one], [rightPre, b, other]]) {
        texts.forEach((text, i) => p.append(marks[i] ? make('span', 'differs', text || ' ') : make('span', '', text + '\n')));
      }
    }
    return add(box, left, right);
  };
  const differences = step => (step.differences || []).map(d => {
    const head = add(make('p'), make('b', '', d.subject), ' ');
    return add(make('div'), add(head, place(d.place)), sideBySide(d.expected, d.actual));
  });
  /** The lines of the source around a location, if they could be read. */
  let lines = null;
  const source = text => {
    lines = lines || JSON.parse(get('sources').textContent);
    const found = text && Object.hasOwn(lines, text) ? lines[text] : null;
    if (!found) return null;
    const box = make('pre', 'source');
    found.lines.forEach((line, i) => {
      const n = found.from + i;
      const row = make('span', n === found.at ? 'differs' : '');
      row.append(make('i', '', String(n).padStart(4)), ' ', seen(line) || ' ', '\n');
      box.append(row);
    });
    return add(make('div', 'sources'), add(make('div', 'label'), 'current source ', place(text)), box);
  };
  /** The sources of the expectations that were not met, otherwise of the step. */
  const asked = step => {
    const places = [...new Set((step.differences || []).map(d => d.place).filter(Boolean))];
    return (places.length ? places.slice(0, 3) : [step.place]).map(source).filter(Boolean);
  };
  const filled = step => {
    const values = Object.entries(step.filled || {});
    if (!values.length) return null;
    const line = make('p', 'filled', 'with ');
    values.forEach(([name, value], i) => line.append(i ? ', ' : '', make('code', '', name), ' = ', make('code', 'value', value === '' ? '(empty)' : value)));
    return line;
  };
  const told = step => {
    const judged = step.judgement;
    return [
      filled(step),
      ...differences(step),
      step.answer && !(step.message || '').includes(step.answer) && !(step.differences || []).some(d => d.actual === step.answer) && labelled('answer', step.answer),
      step.stdout && labelled('standard output', step.stdout),
      step.stderr && labelled('standard error', step.stderr),
      judged && labelled(`judge ${judged.judge}${judged.model ? ' (' + judged.model + ')' : ''}: ${judged.passed === true ? 'passed' : judged.passed === false ? 'failed' : 'no judgment'}`, judged.reason || ''),
      step.outputs && Object.keys(step.outputs).length > 0 && labelled('outputs', json(step.outputs)),
    ].filter(Boolean);
  };
  const bad = step => step.outcome === 'failed' || step.outcome === 'broken';
  const NOT_WITHIN = /^(not within [^;]*);/;
  /** The innermost steps that failed, and how long the step around them waited. */
  const leaves = (steps, waited) => steps.flatMap(s => {
    if (!bad(s)) return [];
    const said = NOT_WITHIN.exec(s.message || '');
    return s.steps && s.steps.some(bad) ? leaves(s.steps, said ? said[1] : waited) : [{ ...s, waited }];
  });
  const failures = run => {
    // A step that waits fails repeatedly at the same inner step: only the last attempt is shown.
    const last = new Map();
    for (const step of run.phases.filter(p => p.name !== 'cleanup').flatMap(p => leaves(p.steps))) last.set((step.id || '').replace(/#\d+/g, ''), step);
    const found = [...last.values()];
    const asserted = (run.asserted || []).filter(a => a.result && a.result.passed === false).map(a => ({
      id: `assert/${a.kind}`, message: a.result.reason || 'the assertion does not hold', outcome: 'failed', place: a.result.place,
      differences: a.result.differences,
      answer: a.result.differences ? '' : (a.result.details || []).join('\n'),
    }));
    return [...found, ...asserted];
  };
  const node = step => {
    const wrapper = make('div');
    const cls = step.type === 'agent' || step.type === 'assertion' ? step.type : (step.steps || []).length ? 'control' : 'step';
    const button = make('button', `node ${cls} ${kind(step.outcome)}`);
    button.type = 'button';
    button.setAttribute('aria-expanded', 'false');
    const first = (step.message || '').split('\n')[0];
    add(button, step.duration ? make('span', 'time', time(step.duration)) : null, make('b', '', step.id || step.type), make('span', '', step.meaning || step.type || ''));
    if (first && step.outcome !== 'passed') button.append(make('div', 'no', first));
    wrapper.append(button);
    let open = null;
    button.addEventListener('click', () => {
      if (open) { open.remove(); open = null; } else {
        open = add(make('div', 'open'), add(make('p', 'soft'), seen(`${step.outcome}${step.duration ? ' in ' + time(step.duration) : ''} `), place(step.place)), step.message && pre(step.message), ...told(step), ...asked(step));
        button.after(open);
      }
      button.setAttribute('aria-expanded', String(!!open));
    });
    if ((step.steps || []).length) {
      // A step that waits repeats its steps: only the last ones are shown.
      const few = step.steps.slice(-12);
      const inner = make('div', 'inner');
      if (few.length < step.steps.length) inner.append(make('p', 'soft', `${plural(step.steps.length - few.length, 'earlier step')} not shown`));
      wrapper.append(add(inner, ...few.map(node)));
    }
    return wrapper;
  };
  const frame = (title, nodes) => add(make('section', 'frame phase'), make('div', 'head', title), add(make('div', 'items'), ...nodes));
  const painted = run => {
    const boxes = [];
    for (const phase of run.phases.filter(p => p.name !== 'cleanup')) boxes.push(frame(phase.name, phase.steps.map(node)));
    if ((run.asserted || []).length) {
      boxes.push(frame('assert', run.asserted.map(a => {
        const { passed, reason, place, differences } = a.result || {};
        return node({ id: a.kind, type: 'assertion', outcome: passed ? 'passed' : 'failed', meaning: passed ? 'holds' : reason, place, differences });
      })));
    }
    for (const phase of run.phases.filter(p => p.name === 'cleanup')) boxes.push(frame('cleanup', phase.steps.map(node)));
    return boxes;
  };
  const callLine = (call, start, whole, cls) => {
    const box = make('details', `call ${cls || ''}`), line = make('summary');
    const track = make('span', 'track'), bar = make('i');
    const at = (Date.parse(call.at) - start) / 1000;
    bar.style.left = `${Math.min(98, Math.max(0, at / whole * 100)) || 0}%`;
    bar.style.width = `${Math.min(100, (call.seconds || 0) / whole * 100) || 0}%`;
    add(line, make('span', call.good ? 'yes' : 'no', call.good ? '✓' : '✗'), make('span', '', `${call.server}.${call.name} ${call.arguments === 'null' ? '' : call.arguments}`), add(track, bar), make('span', 'soft', time(call.seconds)));
    return add(box, line, labelled('arguments', call.arguments), labelled('answer', call.answer));
  };
  /** A message, a thought or a call of one of the agent's own tools. */
  const wordLine = (entry, start, whole) => {
    const box = make('details', 'call word'), line = make('summary'), track = make('span', 'track');
    if (entry.at) {
      const bar = make('i');
      bar.style.left = `${Math.min(98, Math.max(0, (Date.parse(entry.at) - start) / 1000 / whole * 100)) || 0}%`;
      track.append(bar);
    } else track.className = '';
    const text = make('span', '', entry.text.replace(/\s+/g, ' ').slice(0, 300));
    text.dir = 'auto';
    add(line, make('span', 'soft', '·'), add(make('span'), make('b', '', `${(entry.kind || '').replace(/_/g, ' ')} `), text), track, make('span', 'soft', entry.at ? `at ${time((Date.parse(entry.at) - start) / 1000)}` : ''));
    return add(box, line, pre(entry.text));
  };
  const same = (a, b) => a.server === b.server && a.name === b.name && a.arguments === b.arguments;
  /** Compares the calls of both sides up to the first that differs. */
  const beforeAndNow = (task, run) => {
    const other = task.sides[1 - runs[run][SIDE]];
    const partner = other.find(r => runs[r][NUMBER] === runs[run][NUMBER]) ?? other[0];
    if (partner === undefined) return null;
    const [old, now] = runs[run][SIDE] === 1 ? [partner, run] : [run, partner];
    const [a, b] = [details(old), details(now)].map(d => (d && d.calls) || []);
    const box = add(make('section'), make('h3', '', 'Before and now'));
    add(box, make('p', '', `${runs[old][OUTCOME]} in ${time(runs[old][SECONDS])} → ${runs[now][OUTCOME]} in ${time(runs[now][SECONDS])}${task.p ? ` · ${task.p} for all runs of the task` : ''}`));
    let at = 0;
    while (at < a.length && at < b.length && same(a[at], b[at])) at++;
    if (at === a.length && at === b.length) {
      return add(box, make('p', 'soft', a.length ? `The agent made the same ${plural(a.length, 'call')}.` : 'The agent made no calls.'));
    }
    add(box, make('p', 'soft', at ? `The first ${plural(at, 'call')} ${at === 1 ? 'is' : 'are'} the same; they diverge at call ${at + 1}:` : 'They diverge at the first call:'));
    const text = calls => calls[at] ? `${calls[at].server}.${calls[at].name}\n${calls[at].arguments}` : '(no more calls)';
    const pair = sideBySide(text(a), text(b));
    pair.querySelectorAll('.label').forEach((label, i) => { label.textContent = i ? 'now' : 'before'; });
    return add(box, add(make('div', 'diverges'), pair));
  };
  const folded = (title, open, ...inside) => {
    const box = make('details');
    box.open = open;
    return add(box, make('summary', '', title), ...inside);
  };
  const show = (task, run) => {
    const record = runs[run], data = details(run);
    detail.replaceChildren();
    detail.scrollTop = 0;
    const title = make('h2', '', task.name);
    title.dir = 'auto';
    detail.append(title);
    const facts = [record[CLEANUP] ? 'cleanup failed' : '', time(record[SECONDS]), record[TOKENS] ? `${number(record[TOKENS])} tokens` : '', record[COST] ? record[COST].toFixed(4) + ' ' + sides[record[SIDE]].currency : '', task.difficulty || '', ...(task.tags || [])].filter(Boolean).join(' · ');
    detail.append(add(make('p'), make('span', `badge ${kind(record[OUTCOME])}`, record[OUTCOME]), make('span', 'soft', facts + ' '), place(task.path)));
    if (task.all.length > 1) {
      const bar = make('div', 'runs');
      task.sides.forEach((side, nth) => {
        if (sides.length > 1 && side.length) bar.append(make('span', 'soft', compared ? `${nth ? 'now' : 'before'} ${who(nth)}` : who(nth)));
        for (const r of side.slice(0, 60)) {
          const button = make('button', '', `${runs[r][OUTCOME] === 'passed' ? '✓' : '✗'} run ${runs[r][NUMBER]}`);
          button.setAttribute('aria-pressed', String(r === run));
          button.title = runs[r][WHY] || runs[r][OUTCOME];
          button.addEventListener('click', () => show(task, r));
          bar.append(button);
        }
      });
      detail.append(bar);
    }
    current = run;
    if (!data) {
      detail.append(make('p', 'soft', 'The details of this run are omitted because the page would be too large.'));
      if (record[WHY]) detail.append(add(make('div', 'card'), make('h4', '', record[WHY])));
      return;
    }
    const wrong = record[OUTCOME] === 'passed' ? [] : failures(data);
    if (record[CLEANUP]) wrong.push(...data.phases.filter(p => p.name === 'cleanup').flatMap(p => leaves(p.steps)));
    for (const step of wrong) {
      const [first, ...rest] = (step.message || step.outcome).split('\n');
      const card = add(make('div', 'card'), make('h4', '', `${step.id} ${step.outcome}: ${first}`));
      if (step.waited) card.append(make('p', 'waited', step.waited));
      add(card, add(make('p', 'soft'), seen(`${step.meaning || ''} `), place(step.place)));
      if (rest.length && !(step.differences || []).length) card.append(pre(rest.join('\n')));
      detail.append(add(card, ...told(step), ...asked(step)));
    }
    if (record[OUTCOME] !== 'passed' && !wrong.length) detail.append(add(make('div', 'card'), make('h4', '', `${record[OUTCOME]}`), pre(data.error || record[WHY] || 'no reason given')));
    for (const remark of data.remarks || []) detail.append(add(make('p'), make('b', '', 'note: '), seen(remark.message)));
    for (const retry of data.retries || []) detail.append(make('p', 'soft', `retried because it was broken: ${retry}`));
    if (compared && task.sides.every(s => s.length)) add(detail, beforeAndNow(task, run));
    if (data.cut) detail.append(make('p', 'soft', 'Answer, calls and steps are omitted from the results file.'));
    detail.append(make('h3', '', 'What happened'), ...painted(data));
    if (data.judge) detail.append(labelled("the judge's reason", data.judge));
    if (data.judgeError) detail.append(labelled('the judge returned no judgment', data.judgeError));
    if ((data.turn || []).length || (data.calls || []).length) {
      const calls = data.calls || [], entries = data.turn || calls.map((_, call) => ({ call }));
      const times = [...calls, ...entries].map(e => Date.parse(e.at)).filter(at => !isNaN(at));
      const start = Math.min(...times), whole = Math.max(0.001, ...calls.map(c => (Date.parse(c.at) - start) / 1000 + (c.seconds || 0)), ...times.map(at => (at - start) / 1000));
      const HOW = { time: '', told: '', matched: 'The agent does not report times: its entries are in the order in which it reported them, and each call is where the agent names it.', guessed: 'The agent does not report times, nor every call: calls that it does not report are in their own order, as late as possible.' };
      const title = data.turn ? `What the agent did (${plural(entries.length, 'entry', 'entries')}, ${plural(calls.length, 'server call')})` : `Server calls of the agent (${calls.length})`;
      detail.append(folded(title, true, HOW[data.order] && make('p', 'soft', HOW[data.order]), ...entries.map(e => e.call === undefined ? wordLine(e, start, whole) : callLine(calls[e.call], start, whole))));
    }
    if (data.prompt) detail.append(folded('Prompt', wrong.length === 0, pre(data.prompt)));
    if (data.answer) detail.append(folded("The agent's answer", true, pre(data.answer)));
    const judged = data.judgeTokenUsage;
    if (judged) detail.append(make('p', 'judged', `The judge used ${number(judged.inputTokens || 0)} tokens in, ${number(judged.outputTokens || 0)} out${data.judgeTokensEstimated ? ', estimated' : ''}.`));
    const estimate = data.tokenEstimate;
    if (estimate) {
      const dl = make('dl');
      for (const [name, value] of Object.entries(estimate)) if (typeof value === 'number' && value) add(dl, make('dt', '', name.replace(/([A-Z])/g, ' $1').toLowerCase()), make('dd', '', number(value)));
      detail.append(folded(`Tokens (${estimate.source || 'estimated'})`, false, dl));
    }
    detail.append(make('p', 'help', 'Keys: o overview, j and k next and previous task, n and p next and previous task that did not pass, [ and ] previous and next run, / search, Esc back to the list'));
  };

  // --- keys
  document.addEventListener('keydown', event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target === search) {
      if (event.key === 'Escape') { search.value = ''; filter(); list.focus(); }
      if (event.key === 'Enter' && shown.length) { choose(shown[0]); list.focus(); }
      return;
    }
    if (event.target.tagName === 'SELECT') return;
    const inList = event.target === list || event.target === document.body;
    const page = Math.max(1, Math.floor(list.clientHeight / ROW) - 1);
    const by = { j: 1, k: -1, ...(inList ? { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -tasks.length, End: tasks.length } : {}) }[event.key];
    if (by) move(by);
    else if (event.key === 'n') moveToBad(1);
    else if (event.key === 'p') moveToBad(-1);
    else if (event.key === 'o') overview();
    else if (event.key === '/') { search.focus(); search.select(); }
    else if (event.key === 'Enter' && inList) detail.focus();
    else if (event.key === 'Escape') list.focus();
    else if ((event.key === '[' || event.key === ']') && chosen) {
      const at = chosen.all.indexOf(current) + (event.key === ']' ? 1 : -1);
      if (at >= 0 && at < chosen.all.length) show(chosen, chosen.all[at]);
    } else return;
    event.preventDefault();
  });
  filter();
  // Initially, the page shows why the first task failed; for several agents, the overview.
  opened = true;
  if (shown.length && (compared || sides.length === 1)) choose(shown[0]);
  else overview();
  list.focus({ preventScroll: true });
})();
