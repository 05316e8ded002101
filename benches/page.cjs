// Measures how long a results page takes to open in a browser, and to respond.
//
//   NODE_PATH=NODE_MODULES node benches/page.cjs PAGE [TIMES]     puppeteer must be in NODE_MODULES, and chromium at /usr/bin/chromium or PUPPETEER_EXECUTABLE_PATH
'use strict';
const puppeteer = require('puppeteer');
const path = require('node:path');
(async () => {
  const [file, times = '5'] = process.argv.slice(2);
  const browser = await puppeteer.launch({ headless: true, executablePath: process.env.PUPPETEER_EXECUTABLE_PATH || '/usr/bin/chromium', args: ['--no-sandbox', '--disable-dev-shm-usage'] });
  const page = await browser.newPage();
  await page.setViewport({ width: 1400, height: 1000 });
  for (let i = 0; i < +times; i++) {
    const began = Date.now();
    await page.goto(`file://${path.resolve(file)}`);
    await page.waitForSelector('.card');
    const opened = Date.now() - began;
    const took = await page.evaluate(async () => {
      const frame = () => new Promise(done => requestAnimationFrame(done)), times = {};
      const time = async (name, work) => { const t = performance.now(); work(); await frame(); times[name] = Math.round(performance.now() - t); };
      await time('search', () => { const s = document.getElementById('search'); s.value = 'task-9'; s.dispatchEvent(new Event('input')); });
      await time('sort', () => { const s = document.getElementById('sort'); s.value = 'slowest first'; s.dispatchEvent(new Event('change')); });
      await time('choose', () => document.querySelector('.row').click());
      await time('overview', () => document.getElementById('overview').click());
      return times;
    });
    console.log(`opened in ${opened} ms; ${Object.entries(took).map(([name, ms]) => `${name} ${ms} ms`).join(', ')}`);
  }
  await browser.close();
})().catch(error => { console.error(String(error.stack || error)); process.exit(1); });
