// Prints a results file to test its page with: hostile texts, two runs to compare, several agents, a story, or many tasks.
//
//   node results.cjs KIND [TASKS [RUNS]]
'use strict';
const [kind, tasks = '10000', runs = '1'] = process.argv.slice(2);
const hostile = [
  '</script><script>alert(1)</script>', '<img src=x onerror=alert(2)>', '"onmouseover="alert(3)', "';alert(4)//", '<!--<script>',
  '\u202eright to left\u202c', '\u2028\u2029', '\u0000\u001b[31mred', '&lt;b&gt;', '{{7*7}}', 'a'.repeat(5000), 'javascript:alert(5)',
];
const step = (id, outcome, more = {}) => ({
  type: more.type || 'notes.notes_read', meaning: more.meaning || 'call notes.notes_read {title: x}', place: more.place || 'tasks/a.yaml:24',
  success: outcome === 'passed', message: more.message || '', id,
  report: { outcome, message: more.message || '', duration: 0.01, comparisons: 1, ...more.report },
});
const result = (name, passed, more = {}) => ({
  taskName: name, taskPath: more.path || `tasks/${name}.yaml`, taskPassed: passed, allAssertionsPassed: true, outcome: passed ? 'passed' : 'failed',
  reason: passed ? '' : 'verify/read: `content` is not as expected', difficulty: more.difficulty || 'easy', tags: more.tags || ['smoke'],
  durationSeconds: more.seconds || 1.5, runIndex: more.run || 0, totalRuns: more.of || 1, cleanupFailed: false, prompt: more.prompt || 'Write a note.',
  taskOutput: more.output || 'I wrote it down.', assertionResults: { toolsUsed: { passed: true } }, planDigest: 'p',
  callHistory: { ToolCalls: (more.calls || ['notes_create', 'notes_read']).map((tool, i) => ({
    serverName: 'notes', name: tool, timestamp: `2026-11-25T02:00:0${i}Z`, success: true, durationSeconds: 0.3,
    request: { Params: { name: tool, arguments: { title: 'x', body: more.body || 'Bread' } } }, result: { content: [{ type: 'text', text: more.answer || 'created' }] },
  })), ResourceReads: null, PromptGets: null },
  agentOutput: { Steps: [step('agent', 'passed', { type: 'agent', meaning: 'follows its script' })], Success: true, Error: '' },
  verifyOutput: { Steps: [
    step('verify/read', passed ? 'passed' : 'failed', passed ? { report: { answer: more.answer || 'Bread' } } : {
      message: more.message || '`content` is not as expected', meaning: more.meaning, place: more.place,
      report: { answer: more.answer || 'Bread, milk', differences: [{ subject: more.subject || 'content', expected: more.expected || 'contains `Cake`', actual: more.actual || 'Bread, milk', place: more.place || 'tasks/a.yaml:25' }] },
    }),
    step('verify/1', 'passed', { type: 'command', meaning: 'run `grep -c eggs`' }),
  ], Success: passed, Error: '' },
  tokenEstimate: { totalTokens: 1200, inputTokens: 1000, outputTokens: 200, source: 'actual', cost: 0.0123 },
});
const file = (results, more = {}) => ({ summary: { eval: more.eval || 'e', agent: { name: more.agent || 'a', model: more.model || 'm-1' }, currency: 'USD', complete: true, durationSeconds: 9, startedAt: '2026-11-25T02:00:00Z' }, results, findings: [] });
const beside = passes => Array.from({ length: 20 }, (_, i) => Array.from({ length: 5 }, (_, run) => result(`task-${i}`, passes(i), { run, of: 5, difficulty: ['easy', 'medium', 'hard'][i % 3] }))).flat();
const files = {
  hostile: () => file(hostile.map((text, i) => result(`${i} ${text}`, false, {
    path: text, difficulty: text.slice(0, 60), tags: [text.slice(0, 60)], prompt: text, output: text, message: text, meaning: text, place: text + ':3', subject: text,
    expected: text, actual: text + 'x', answer: text, calls: [text], body: text,
  })), { eval: hostile[0], model: hostile[1] }),
  old: () => file(Array.from({ length: 12 }, (_, i) => result(`task-${i}`, i !== 3)), { model: 'm-1' }),
  new: () => file(Array.from({ length: 12 }, (_, i) => result(`task-${i}`, i > 1, i === 5 ? { seconds: 9, calls: ['notes_list', 'notes_create', 'notes_read'] } : {})), { model: 'm-2' }),
  // Three agents, 20 tasks, 5 runs each: the second agent fails 14 tasks in every run, the others fail none.
  good: () => file(beside(() => true), { agent: 'good', model: 'm' }),
  bad: () => file(beside(i => i % 10 > 6), { agent: 'bad', model: 'm' }),
  fair: () => file(beside(() => true), { agent: 'fair', model: 'm' }),
  story: () => {
    const at = second => `2026-11-25T02:00:0${second}Z`;
    const one = result('story', true, { calls: ['notes_create', 'notes_read'] });
    one.callHistory.ToolCalls.forEach((call, i) => { call.timestamp = at(i * 2 + 2); });
    one.agentOutput.agentDetails = { outputSteps: [
      { type: 'thinking', content: 'A note is wanted.', at: at(0) },
      { type: 'tool_call', toolCall: { title: 'Read README.md', kind: 'read' }, at: at(1) },
      { type: 'tool_call', toolCall: { title: 'mcp__notes__notes_create' }, at: at(2) },
      { type: 'thinking', content: 'Let me look at it.', at: at(3) },
      { type: 'message', content: 'I wrote it down.', at: at(5) },
    ] };
    one.judgeTokenUsage = { inputTokens: 900, outputTokens: 40, totalTokens: 940 };
    one.judgeTokensEstimated = true;
    return file([one]);
  },
  many: () => file(Array.from({ length: +tasks }, (_, i) => Array.from({ length: +runs }, (_, run) => result(`task-${i}`, (i + run) % 7 !== 0, { run, of: +runs, difficulty: ['easy', 'medium', 'hard'][i % 3], seconds: (i % 50) / 10 + 0.1 }))).flat()),
};
process.stdout.write(JSON.stringify(files[kind]()));
