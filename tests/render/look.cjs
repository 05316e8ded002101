// Tests the page and the SVG picture of a plan in a browser, in light and dark mode, with the keyboard. Every error, warning or dialog, for
// instance because a style or script is blocked, and every network request is a failure.
'use strict';
const puppeteer = require('puppeteer');
const assert = require('node:assert');

(async () => {
  const [out, name] = process.argv.slice(2);
  const browser = await puppeteer.launch({ headless: true, executablePath: process.env.PUPPETEER_EXECUTABLE_PATH, args: ['--no-sandbox', '--disable-dev-shm-usage'] });
  const page = await browser.newPage();
  const complaints = [];
  page.on('console', message => { if (['error', 'warn', 'warning'].includes(message.type())) complaints.push(message.text()); });
  page.on('pageerror', error => complaints.push(String(error)));
  page.on('dialog', dialog => { complaints.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on('request', request => { if (!request.url().startsWith('file:')) complaints.push(`request: ${request.url()}`); });
  await page.setViewport({ width: 1280, height: 900 });
  const shot = what => page.screenshot({ path: `${out}/${name}.${what}.png` });
  const theme = value => page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value }]);

  for (const value of ['light', 'dark']) {
    await theme(value);
    await page.goto(`file://${out}/${name}.svg`);
    await shot(`svg.${value}`);
    // No text overflows its box.
    const out_of_box = await page.evaluate(() => [...document.querySelectorAll('.node')].flatMap(node => {
      const box = node.querySelector('.box').getBoundingClientRect();
      return [...node.querySelectorAll('text')].filter(t => t.getBoundingClientRect().right > box.right + 1 || t.getBoundingClientRect().bottom > box.bottom + 1).map(t => t.textContent);
    }));
    assert.deepStrictEqual(out_of_box, [], `${name}: texts that overflow their boxes`);
  }

  for (const value of ['light', 'dark']) {
    await theme(value);
    await page.goto(`file://${out}/${name}.html`);
    await shot(`html.${value}`);
  }
  const transform = () => page.$eval('#canvas', e => e.style.transform);
  const start = await transform();
  await page.keyboard.press('+');
  assert.notStrictEqual(await transform(), start, '+ does not zoom');
  await page.keyboard.press('0');
  assert.strictEqual(await transform(), start, '0 does not restore the view');
  // Search selects a step, and opens its details.
  await page.keyboard.press('/');
  await page.keyboard.type('verify');
  const found = await page.$eval('#found', e => e.textContent);
  if (!/^0 /.test(found)) {
    await page.keyboard.press('Enter');
    assert.strictEqual(await page.$eval('#panel', e => e.hidden), false, 'the search does not open the details');
    assert.ok(await page.$('.node.chosen'), 'the search selects no box');
    await shot('html.search');
    await page.keyboard.press('Escape');
  }
  // With the first box focused, Enter opens its details, and Escape closes them.
  await page.evaluate(() => { document.activeElement.blur(); document.querySelector('#panel:not([hidden]) #close')?.click(); });
  const first = await page.evaluateHandle(() => [...document.querySelectorAll('.node')].find(n => n.offsetParent));
  if (first.asElement()) {
    await first.focus();
    await page.keyboard.press('Enter');
    assert.strictEqual(await page.$eval('#panel', e => e.hidden), false, 'Enter does not open the details');
    await shot('html.details');
    await page.keyboard.press('Escape');
    assert.strictEqual(await page.$eval('#panel', e => e.hidden), true, 'Escape does not close the details');
  }
  await page.keyboard.press('f');
  await shot('html.folded');
  // No two visible boxes overlap.
  await page.keyboard.press('f');
  const overlaps = await page.evaluate(() => {
    const boxes = [...document.querySelectorAll('.node')].filter(n => n.offsetParent).map(n => [n.textContent, n.getBoundingClientRect()]);
    const found = [];
    boxes.forEach(([a, r], i) => boxes.slice(i + 1).forEach(([b, s]) => {
      if (r.left < s.right - 1 && s.left < r.right - 1 && r.top < s.bottom - 1 && s.top < r.bottom - 1) found.push([a, b]);
    }));
    return found.slice(0, 3);
  });
  assert.deepStrictEqual(overlaps, [], `${name}: boxes overlap`);
  // Every kind of link has an arrow; not tested if a box is folded, which can hide both ends of a link.
  const missing = await page.evaluate(() => {
    if (document.querySelector('.folded')) return [];
    const kinds = new Set(JSON.parse(document.getElementById('data').textContent).links.map(link => link.kind));
    return [...kinds].filter(kind => !document.querySelector(`svg path.${kind}`));
  });
  assert.deepStrictEqual(missing, [], `${name}: kinds of links without an arrow`);
  assert.deepStrictEqual(complaints, [], `${name}: errors and warnings from the browser`);
  await browser.close();
})().catch(error => { console.error(String(error.stack || error)); process.exit(1); });
