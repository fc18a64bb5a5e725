// From the values in #figures to charts. What is drawn was decided before; this file decides how it looks.
(() => {
  'use strict';
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  const figures = JSON.parse(byId('figures').textContent);

  // Okabe and Ito's colours, which people with any colour vision tell apart; each line has a symbol and a dash of its own too.
  const LINES = {
    light: ['#0072B2', '#D55E00', '#009E73', '#B5528B', '#C98600', '#3B9BD6', '#3c3c3c', '#8C564B'],
    dark: ['#56B4E9', '#F0813A', '#2FC79A', '#E39CC7', '#F0B840', '#9CD3F5', '#d8d8d8', '#C49A8F'],
  };
  const SYMBOLS = ['circle', 'rect', 'triangle', 'diamond', 'emptyCircle', 'emptyRect', 'emptyTriangle', 'emptyDiamond'];
  const DASHES = ['solid', 'dashed', 'solid', 'dashed', 'solid', 'dashed', 'dotted', 'dotted'];
  const QUANTILES = { p50: 'circle', p95: 'triangle', p99: 'diamond', 'p99.9': 'rect', max: 'emptyCircle' };
  // A part's colour is the same in every chart.
  const PARTS = {
    execution: '#009E73', locking: '#D55E00', latching: '#E69F00', logging: '#CC79A7', communication: '#0072B2',
    management: '#56B4E9', waiting: 'grey', idle: 'sand',
    lock: '#D55E00', log: '#CC79A7', reply: '#0072B2', decision: '#56B4E9', page: '#E69F00', turn: 'violet', retry: '#8C564B',
    fixed: '#56B4E9', cooperative: '#009E73', unbounded: '#D55E00',
    index: '#0072B2', heap: '#E69F00', catalog: '#CC79A7', free_space: '#009E73',
    'index pages': '#0072B2', 'heap pages': '#E69F00', records: '#009E73', 'row locks': '#D55E00', 'higher locks': '#CC79A7',
  };
  // What is no work: told apart by hue, as two greys are not.
  const PASSIVE = { light: { grey: '#8f98a3', sand: '#e0d3b8', violet: '#8f84c9' }, dark: { grey: '#79838e', sand: '#574c36', violet: '#8f84d6' } };
  const VIRIDIS = ['#fde725', '#7ad151', '#22a884', '#2a788e', '#414487', '#440154'];

  let patterns = false;
  let printing = false;
  const dark = () =>
    !printing && (root.dataset.theme === 'dark' || (root.dataset.theme !== 'light' && matchMedia('(prefers-color-scheme: dark)').matches));

  function look() {
    const css = getComputedStyle(root);
    const get = (name) => css.getPropertyValue(name).trim();
    const mode = dark() ? 'dark' : 'light';
    const text = printing ? '#1b1f24' : get('--fg');
    return {
      mode, text, soft: printing ? '#57606a' : get('--soft'), grid: printing ? '#e6e9ed' : get('--grid'),
      bg: printing ? '#fff' : get('--bg'), axis: printing ? '#57606a' : get('--soft'),
    };
  }

  const escape = (text) => String(text).replace(/[&<>"']/g, (c) => '&#' + c.charCodeAt(0) + ';');
  function short(value) {
    const v = Math.abs(value);
    if (v >= 1e9) return trim(value / 1e9) + 'G';
    if (v >= 1e6) return trim(value / 1e6) + 'M';
    if (v >= 1e4) return trim(value / 1e3) + 'k';
    if (v >= 1000) return Math.round(value).toLocaleString('en');
    return trim(value);
  }
  const trim = (v) => String(Number(v.toPrecision(Math.abs(v) >= 100 ? 4 : 3)));

  const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
  const base = (l) => ({
    animation: false,
    textStyle: { color: l.text, fontFamily: FONT, fontSize: 12 },
    aria: { enabled: patterns, label: { enabled: false }, decal: { show: patterns } },
    tooltip: {
      trigger: 'item', confine: true, backgroundColor: l.bg, borderColor: l.grid, textStyle: { color: l.text, fontSize: 12 },
    },
  });
  const valueAxis = (l, axis, more) => ({
    type: axis.scale === 'logarithmic' ? 'log' : 'value',
    axisLine: { show: true, lineStyle: { color: l.axis } },
    axisTick: { show: true, lineStyle: { color: l.axis } },
    axisLabel: { color: l.text, formatter: short, hideOverlap: true },
    splitLine: { lineStyle: { color: l.grid } },
    minorSplitLine: { show: false },
    nameTextStyle: { color: l.text },
    name: axis.name,
    ...more,
  });
  // The ends of a logarithmic axis: the nearest of 1, 2 and 5 times a power of ten, so that what is written there is round.
  function roundDown(v) {
    const power = 10 ** Math.floor(Math.log10(v));
    return [5, 2, 1].map((n) => n * power).find((n) => n <= v * (1 + 1e-9)) || power;
  }
  function roundUp(v) {
    const power = 10 ** Math.floor(Math.log10(v));
    return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= v * (1 - 1e-9)) || 10 * power;
  }
  const across = { nameLocation: 'middle', nameGap: 28 };
  const upright = { nameLocation: 'end', nameGap: 12 };
  const leftName = (l) => ({ color: l.text, align: 'left', padding: [0, 0, 0, -36] });

  // Legends wrap; ECharts does not say how high they get, so this counts as it goes.
  // The last row ends before the button that saves the chart.
  const BUTTON = 72;
  function legend(l, names, width, symbols, least = 2) {
    let rows = 1;
    let used = 0;
    for (const name of names) {
      const w = name.length * 6.6 + 46;
      if (used > 0 && used + w > width - BUTTON - 16) { rows += 1; used = 0; }
      used += w;
    }
    const height = names.length >= least ? rows * 24 + 4 : 0;
    const data = names.map((name, i) => (symbols ? { name, icon: undefined } : { name, icon: 'roundRect', i }));
    return {
      height,
      option: { show: names.length >= least, bottom: 0, left: 0, width: width - BUTTON, itemGap: 12, itemWidth: symbols ? 26 : 14, data: data.map(({ i, ...d }) => d), textStyle: { color: l.text } },
    };
  }

  function colour(l, name, i) {
    const c = PARTS[name] || LINES[l.mode][i % LINES.light.length];
    return PASSIVE[l.mode][c] || c;
  }
  function ink(hex) {
    const n = parseInt(hex.slice(1), 16);
    const lum = 0.299 * (n >> 16) + 0.587 * ((n >> 8) & 255) + 0.114 * (n & 255);
    return lum > 140 ? '#111' : '#fff';
  }

  // A line from the least to the greatest, with caps.
  function whisker(api, low, high, cap, style, flat) {
    const [a, b] = [low, high];
    const ends = flat
      ? [{ x1: a[0], y1: a[1] - cap, x2: a[0], y2: a[1] + cap }, { x1: b[0], y1: b[1] - cap, x2: b[0], y2: b[1] + cap }]
      : [{ x1: a[0] - cap, y1: a[1], x2: a[0] + cap, y2: a[1] }, { x1: b[0] - cap, y1: b[1], x2: b[0] + cap, y2: b[1] }];
    const lines = [{ x1: a[0], y1: a[1], x2: b[0], y2: b[1] }, ...ends];
    return { type: 'group', children: lines.map((shape) => ({ type: 'line', shape, style })) };
  }

  function drawLines(chart, l, width) {
    const long = chart.lines.some((line) => line.points.length > 40);
    const names = chart.lines.map((line) => line.name);
    const lg = legend(l, names, width, true);
    const series = [];
    chart.lines.forEach((line) => {
      const i = line.tone % LINES.light.length;
      const c = LINES[l.mode][i];
      series.push({
        type: 'line', name: line.name, data: line.points.map((p) => [p[0], p[1], p[2], p[3]]),
        symbol: SYMBOLS[i], symbolSize: line.marks === 'points' ? 8 : 5,
        showSymbol: line.marks === 'points' || !long,
        lineStyle: { color: c, width: 2, type: DASHES[i] }, itemStyle: { color: c },
        emphasis: { focus: 'series' },
      });
      if (line.events) {
        series.push({
          type: 'custom', name: line.name, silent: true, z: 0, tooltip: { show: false }, data: line.events.map((e) => [e.at, 0]), encode: { x: 0 },
          renderItem: (params, api) => {
            const [x, box] = [api.coord([api.value(0), 0])[0], params.coordSys];
            return { type: 'line', shape: { x1: x, y1: box.y, x2: x, y2: box.y + box.height }, style: { stroke: c, lineWidth: 1.2, lineDash: [4, 4] } };
          },
        });
      }
      const spread = line.points.filter((p) => p[2] !== null && p[3] > p[2]);
      if (spread.length) {
        series.push({
          type: 'custom', name: line.name, silent: true, z: 1, tooltip: { show: false }, data: spread.map((p) => [p[0], p[2], p[3]]),
          itemStyle: { color: c }, encode: { x: 0, y: [1, 2] },
          renderItem: (_, api) => whisker(api, api.coord([api.value(0), api.value(1)]), api.coord([api.value(0), api.value(2)]), 4, { stroke: c, lineWidth: 1.2 }),
        });
      }
    });
    const xs = chart.lines.flatMap((line) => line.points.map((p) => p[0]));
    const logX = chart.x.scale === 'logarithmic';
    // A little room, so that no mark sits on the frame; a log axis ends at round numbers.
    const [lo, hi] = [Math.min(...xs), Math.max(...xs)];
    const room = { min: logX ? roundDown(lo) : lo >= 0 && lo - (hi - lo) * 0.03 < 0 ? 0 : lo - (hi - lo) * 0.03, max: logX ? roundUp(hi) : hi + (hi - lo) * 0.02 };
    const places = [...new Set(xs)].sort((a, b) => a - b);
    const few = places.length <= 12 && chart.lines.every((line) => line.marks === 'points');
    const ticks = few ? { customValues: places } : {};
    const ys = chart.lines.flatMap((line) => line.points.map((p) => p[1]));
    const yRoom = chart.y.scale === 'logarithmic' ? { min: roundDown(Math.min(...ys)), max: chart.y.name.includes('%') ? 100 : roundUp(Math.max(...ys)) } : { min: 0 };
    return {
      height: 320 + lg.height,
      option: {
        ...base(l), legend: lg.option,
        tooltip: { ...base(l).tooltip, trigger: 'axis', axisPointer: { type: 'line' }, formatter: (all) => axisTip(chart, Array.isArray(all) ? all : [all]) },
        grid: { left: 8, right: 20, top: 8, bottom: lg.height + 8, outerBoundsMode: 'same', outerBoundsContain: 'all' },
        xAxis: valueAxis(l, chart.x, { ...across, ...room, splitLine: { show: false }, axisTick: { show: true, ...ticks }, axisLabel: { color: l.text, formatter: tick(room), hideOverlap: true, ...ticks } }),
        yAxis: valueAxis(l, chart.y, { ...upright, ...yRoom, nameTextStyle: leftName(l) }),
        series,
      },
    };
  }
  // The ends of an axis with room at them are no round numbers: they are left without a label.
  const tick = (room) => (v) => (v === room.min && v !== 0 || v === room.max ? (trim(v) === String(v) ? short(v) : '') : short(v));

  function axisTip(chart, all) {
    const seen = all.filter((p) => p.seriesType === 'line');
    if (!seen.length) return '';
    const row = (p) => {
      const [, y, lo, hi] = p.value;
      const spread = lo != null && hi > lo ? ` <small>(${escape(short(lo))} to ${escape(short(hi))})</small>` : '';
      return `<br>${p.marker}${escape(p.seriesName)}: <b>${escape(short(y))}</b>${spread}`;
    };
    const from = seen[0].value[0];
    const told = chart.lines.flatMap((line) => (line.events || []).filter((e) => e.at >= from && e.at < from + 1).map((e) => `<br><small>${escape(line.name)}, ${escape(short(e.at))}: ${escape(e.what)}</small>`));
    return escape(chart.x.name) + ': ' + escape(short(from)) + seen.map(row).join('') + told.join('');
  }

  function drawBars(chart, l, width) {
    const flat = chart.bars.length === 1 && chart.x.name === '';
    const n = chart.bars.length;
    const names = chart.bars.map((b) => b.name);
    const lg = legend(l, names, width, false);
    const series = [];
    chart.bars.forEach((bar, i) => {
      const c = LINES[l.mode][bar.tone % LINES.light.length];
      series.push({
        type: 'bar', name: bar.name, barWidth: 64 / n + '%', barGap: '0%', itemStyle: { color: c, borderColor: l.bg, borderWidth: n > 1 ? 1 : 0 },
        data: bar.values.map((v) => (v ? v[0] : null)),
      });
      const offset = (api, axis) => (i - (n - 1) / 2) * Math.abs(api.size([1, 1])[axis]) * 0.64 / n;
      const spread = bar.values.map((v, at) => [at, v]).filter(([, v]) => v && v[2] > v[1]);
      if (spread.length) series.push({
        type: 'custom', name: bar.name, silent: true, z: 5, tooltip: { show: false }, itemStyle: { color: l.text },
        data: spread.map(([at, v]) => (flat ? [v[1], at, v[2]] : [at, v[1], v[2]])),
        encode: flat ? { x: [0, 2], y: 1 } : { x: 0, y: [1, 2] },
        renderItem: (_, api) => {
          const [a, b] = flat
            ? [api.coord([api.value(0), api.value(1)]), api.coord([api.value(2), api.value(1)])]
            : [api.coord([api.value(0), api.value(1)]), api.coord([api.value(0), api.value(2)])];
          if (!flat) { a[0] += offset(api, 0); b[0] += offset(api, 0); }
          return whisker(api, a, b, 4, { stroke: l.text, lineWidth: 1.2 }, flat);
        },
      });
    });
    const tip = (p) => {
      const v = chart.bars.find((b) => b.name === p.seriesName).values[p.dataIndex];
      return `${escape(chart.places[p.dataIndex])}${n > 1 ? ', ' + escape(p.seriesName) : ''}<br><b>${escape(short(v[0]))}</b> ${escape(chart.y.name)} <small>(${escape(short(v[1]))} to ${escape(short(v[2]))})</small>`;
    };
    const common = { ...base(l), legend: lg.option, series, tooltip: { ...base(l).tooltip, formatter: tip } };
    const category = categoryAxis(l, chart.places, width, flat);
    if (flat) {
      return {
        height: 60 + chart.places.length * 34,
        option: { ...common, grid: grid(10, 8), xAxis: valueAxis(l, chart.y, { ...across, min: 0 }), yAxis: category },
      };
    }
    return {
      height: 310 + lg.height,
      option: { ...common, grid: grid(8, lg.height + 8), yAxis: valueAxis(l, chart.y, { ...upright, min: 0, nameTextStyle: leftName(l) }), xAxis: { ...category, name: chart.x.name, ...across } },
    };
  }
  const grid = (top, bottom) => ({ left: 8, right: 24, top, bottom, outerBoundsMode: 'same', outerBoundsContain: 'all' });

  // Names of bars from top to bottom; long ones break where their parts meet.
  function categoryAxis(l, names, width, flat) {
    const narrow = width < 480;
    return {
      type: 'category', data: names, inverse: flat, axisTick: { show: false }, axisLine: { lineStyle: { color: l.axis } },
      nameTextStyle: { color: l.text },
      axisLabel: {
        color: l.text, interval: flat ? 0 : 'auto', lineHeight: 14, fontSize: narrow ? 11 : 12,
        formatter: (name) => (narrow && flat ? name.replace(' · ', '\n') : name),
        ...(flat ? { width: narrow ? width * 0.38 : width * 0.42, overflow: 'break' } : {}),
      },
    };
  }

  const ROW = 24;
  const full = (name) => [name.group, name.place].filter(Boolean).join(' · ') || 'all';
  // One line for each name; names that share a group stand under it, so that it is said once.
  function groups(names) {
    const rows = [];
    names.forEach((name, of) => {
      const shared = name.group && name.place && names.filter((n) => n.group === name.group).length > 1;
      if (!shared) { rows.push({ text: full(name), of }); return; }
      if (of === 0 || names[of - 1].group !== name.group) rows.push({ text: name.group });
      rows.push({ text: name.place, of });
    });
    return rows;
  }
  function groupAxis(l, rows, width) {
    return {
      type: 'category', data: rows.map((_, at) => at), inverse: true, axisTick: { show: false }, axisLine: { lineStyle: { color: l.axis } },
      axisLabel: {
        color: l.text, interval: 0, lineHeight: 13, fontSize: width < 480 ? 11 : 12, width: width * 0.42, overflow: 'break',
        formatter: (at) => { const r = rows[at]; return r.of === undefined ? `{g|${r.text.replace(/[{}|]/g, ' ')}}` : r.text; },
        rich: { g: { fontWeight: 'bold', color: l.text, fontSize: width < 480 ? 11 : 12 } },
      },
    };
  }

  function drawStacked(chart, l, width, view) {
    const { parts, unit } = chart.views[view];
    const lg = legend(l, parts.map((p) => p.name.replace(/_/g, ' ')), width, false, 1);
    const totals = chart.bars.map((_, b) => parts.reduce((sum, p) => sum + p.values[b], 0));
    const most = Math.max(...totals, 1e-9);
    const room = width * 0.55;
    const rows = groups(chart.bars);
    const below = parts.some((p) => p.values.some((v) => v < 0));
    // A unit of several words says by itself what it is counted in.
    const told = unit === '%' ? '% of all' : unit.includes(' ') ? unit : unit + ' per transaction';
    const series = parts.map((p, i) => {
      const c = colour(l, p.name, i);
      const fits = (v) => (v / most) * room > 34;
      return {
        type: 'bar', stack: 'all', name: p.name.replace(/_/g, ' '), data: rows.map((r) => (r.of === undefined || !p.values[r.of] ? '-' : p.values[r.of])), barWidth: '72%', barMinHeight: 0,
        itemStyle: { color: c, borderColor: l.bg, borderWidth: 0.5 }, emphasis: { focus: 'series' },
        label: { show: true, color: ink(c), fontSize: 11, formatter: (d) => (fits(d.value) ? trim(d.value >= 1000 ? Math.round(d.value) : d.value) : '') },
      };
    });
    const tip = (p) => {
      const at = rows[p.dataIndex].of;
      if (at === undefined) return '';
      const lines = parts.map((q) => `<br>${escape(q.name.replace(/_/g, ' '))}: ${escape(trim(q.values[at]))}`);
      return `<b>${escape(full(chart.bars[at]))}</b><br>all: ${escape(trim(totals[at]))} ${escape(unit)}${lines.join('')}`;
    };
    return {
      height: 56 + rows.length * ROW + lg.height,
      option: {
        ...base(l), legend: lg.option, series, tooltip: { ...base(l).tooltip, formatter: tip }, grid: grid(8, lg.height + 8),
        xAxis: valueAxis(l, { name: told, scale: 'linear' }, { ...across, min: below ? undefined : 0, max: unit === '%' && !below ? 100 : undefined }),
        yAxis: groupAxis(l, rows, width),
      },
    };
  }

  function drawQuantiles(chart, l, width) {
    const names = Object.keys(QUANTILES).filter((q) => chart.rows.some((r) => r.marks.some((m) => m[0] === q)));
    const lg = legend(l, names, width, false);
    lg.option.data = names.map((name) => ({ name }));
    const rows = groups(chart.rows.map((r) => r.name));
    const where = (at) => rows.findIndex((r) => r.of === at);
    const series = [{
      type: 'custom', silent: true, z: 1, tooltip: { show: false }, encode: { x: [0, 1], y: 2 },
      data: chart.rows.map((r, at) => [Math.min(...r.marks.map((m) => m[1])), Math.max(...r.marks.map((m) => m[1])), where(at)]).filter((d) => isFinite(d[0])),
      renderItem: (_, api) => {
        const [a, b] = [api.coord([api.value(0), api.value(2)]), api.coord([api.value(1), api.value(2)])];
        return { type: 'line', shape: { x1: a[0], y1: a[1], x2: b[0], y2: b[1] }, style: { stroke: l.soft, lineWidth: 1.5 } };
      },
    }];
    names.forEach((q, i) => series.push({
      type: 'scatter', name: q, symbol: QUANTILES[q], symbolSize: q === 'p50' ? 11 : 9, itemStyle: { color: LINES[l.mode][i] },
      data: chart.rows.flatMap((r, at) => r.marks.filter((m) => m[0] === q).map((m) => [m[1], where(at)])),
    }));
    const tip = (p) => `${escape(full(chart.rows[rows[p.value[1]].of].name))}<br>${escape(p.seriesName)}: <b>${escape(short(p.value[0]))} µs</b>`;
    const all = chart.rows.flatMap((r) => r.marks.map((m) => m[1]));
    return {
      height: 56 + rows.length * ROW + lg.height,
      option: {
        ...base(l), legend: lg.option, series, tooltip: { ...base(l).tooltip, formatter: tip }, grid: grid(8, lg.height + 8),
        xAxis: valueAxis(l, chart.x, { ...across, min: roundDown(Math.min(...all)), max: roundUp(Math.max(...all)) }),
        yAxis: groupAxis(l, rows, width),
      },
    };
  }

  function drawMatrix(chart, l, width) {
    const values = chart.cells.map((c) => c[2]).sort((a, b) => a - b);
    const n = chart.names.length;
    const side = Math.min(width, Math.max(200, Math.min(600, n * 40 + 60)));
    // Outliers must not take all the colours.
    const top = values[Math.floor((values.length - 1) * 0.99)];
    const axis = {
      type: 'category', data: chart.names, axisTick: { show: false }, axisLine: { show: false }, splitArea: { show: false },
      axisLabel: { color: l.text, fontSize: 11, hideOverlap: true, interval: n <= 24 ? 0 : 'auto' }, nameTextStyle: { color: l.text }, name: 'CPU', ...across,
    };
    const tip = (p) => `CPU ${escape(chart.names[p.value[0]])} and CPU ${escape(chart.names[p.value[1]])}: <b>${escape(trim(p.value[2]))} ${escape(chart.unit)}</b>`;
    return {
      height: side, width: side, canvas: chart.cells.length > 3000,
      option: {
        ...base(l), tooltip: { ...base(l).tooltip, formatter: tip },
        grid: { left: 8, right: 70, top: 8, bottom: 8, outerBoundsMode: 'same', outerBoundsContain: 'all' },
        xAxis: axis, yAxis: { ...axis, inverse: true, nameGap: 32 },
        visualMap: { type: 'continuous', min: values[0] === top ? 0 : Math.floor(values[0]), max: Math.ceil(top), right: 0, top: 'middle', itemHeight: Math.min(160, side - 80), itemWidth: 14, text: [chart.unit, ''], textStyle: { color: l.text }, calculable: true, inRange: { color: VIRIDIS } },
        series: [{
          type: 'heatmap', progressive: 0, data: chart.cells.map((c) => ({ value: c, label: { color: (c[2] - values[0]) / (top - values[0] || 1) > 0.45 || values[0] === top ? '#fff' : '#111' } })), itemStyle: { borderColor: l.bg, borderWidth: n > 48 ? 0 : 1 },
          label: { show: n <= 12, formatter: (p) => trim(p.value[2] >= 100 ? Math.round(p.value[2]) : p.value[2]), fontSize: 11 },
        }],
      },
    };
  }

  // A rectangle for each point in the colour of its winner. One series per winner, so that the legend can switch it off.
  function drawMap(chart, l, width) {
    const lg = legend(l, chart.winners, width, false, 1);
    const wide = width / chart.columns.length > 62;
    const series = chart.winners.map((name, i) => {
      const c = LINES[l.mode][i % LINES.light.length];
      const cells = chart.cells.filter((cell) => cell.winner === i);
      return {
        type: 'custom', name, itemStyle: { color: c }, encode: { x: 0, y: 1 }, data: cells.map((cell) => [cell.column, cell.row]),
        renderItem: (params, api) => {
          const [x, y] = api.coord([api.value(0), api.value(1)]);
          const [w, h] = api.size([1, 1]);
          const label = cells[params.dataIndex].label;
          return {
            type: 'rect', shape: { x: x - w / 2, y: y - h / 2, width: w, height: h }, style: { fill: c, stroke: l.bg, lineWidth: 1 },
            textContent: { style: { text: wide ? label : label.split(' ')[0], fill: ink(c), fontSize: 11, fontFamily: FONT } }, textConfig: { position: 'inside' },
          };
        },
        tooltip: { formatter: (p) => escape(cells[p.dataIndex].detail) },
      };
    });
    const axis = (name, data, more) => ({
      type: 'category', data, name, axisTick: { show: false }, axisLine: { show: false }, splitArea: { show: false },
      axisLabel: { color: l.text, interval: 0, fontSize: width < 480 ? 10 : 12 }, nameTextStyle: { color: l.text }, ...more,
    });
    return {
      height: 70 + chart.rows.length * 38 + lg.height,
      option: {
        ...base(l), legend: lg.option, series, grid: { ...grid(28, lg.height + 8) },
        xAxis: axis(chart.x, chart.columns, across), yAxis: axis(chart.y, chart.rows, { ...upright, nameTextStyle: leftName(l) }),
      },
    };
  }

  const DRAW = { lines: drawLines, bars: drawBars, stacked: drawStacked, quantiles: drawQuantiles, map: drawMap, matrix: drawMatrix };

  const state = new Map();
  function draw(figure) {
    const s = state.get(figure.id);
    const width = s.box.clientWidth;
    if (!width) return;
    try {
      const made = DRAW[figure.chart.kind](figure.chart, look(), width, s.view);
      if (s.chart) s.chart.dispose();
      s.box.style.height = made.height + 'px';
      s.chart = echarts.init(s.box, null, { renderer: made.canvas ? 'canvas' : 'svg', width: made.width || width, height: made.height });
      s.chart.setOption(made.option);
      s.width = width;
      s.svg = !made.canvas;
      s.box.dataset.drawn = 'yes';
    } catch (error) {
      s.box.textContent = 'This chart cannot be drawn here (' + error.message + '); the table below says the same.';
      s.box.style.height = 'auto';
      s.host.querySelector('details').open = true;
      console.error(error);
    }
  }
  const drawAll = () => figures.forEach(draw);

  function button(text, action, pressed) {
    const b = document.createElement('button');
    b.type = 'button';
    b.textContent = text;
    if (pressed !== undefined) b.setAttribute('aria-pressed', String(pressed));
    b.addEventListener('click', () => action(b));
    return b;
  }

  // The chart alone, for a paper: as vectors where it is drawn with them.
  function save(figure) {
    const s = state.get(figure.id);
    const url = s.chart.getDataURL({ type: s.svg ? 'svg' : 'png', pixelRatio: 2, backgroundColor: s.svg ? undefined : look().bg });
    const a = document.createElement('a');
    a.href = url;
    a.download = figure.id + (s.svg ? '.svg' : '.png');
    a.click();
  }

  const resized = new ResizeObserver((entries) => {
    for (const entry of entries) {
      const figure = figures.find((f) => f.id === entry.target.dataset.of);
      const s = state.get(figure.id);
      if (s.width !== undefined && s.width !== s.box.clientWidth) draw(figure);
    }
  });

  for (const figure of figures) {
    const host = byId(figure.id);
    const box = host.querySelector('.chart');
    box.dataset.of = figure.id;
    const s = { host, box, view: 0, chart: null };
    state.set(figure.id, s);
    const bar = document.createElement('div');
    bar.className = 'views';
    if (figure.chart.kind === 'stacked' && figure.chart.views.length > 1) {
      figure.chart.views.forEach((view, i) => bar.append(button(view.name, (pressed) => {
        s.view = i;
        bar.querySelectorAll('[aria-pressed]').forEach((b) => b.setAttribute('aria-pressed', String(b === pressed)));
        draw(figure);
      }, i === 0)));
    }
    box.before(bar);
    const keep = button('Save', () => save(figure));
    keep.className = 'save';
    host.append(keep);
    draw(figure);
    resized.observe(box);
  }

  function sorts(table) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((th, column) => {
      th.tabIndex = 0;
      const sort = () => {
        const up = th.getAttribute('aria-sort') === 'descending';
        heads.forEach((h) => h.removeAttribute('aria-sort'));
        th.setAttribute('aria-sort', up ? 'ascending' : 'descending');
        const key = (tr) => tr.cells[column].dataset.n;
        const compare = (a, b) => {
          const [x, y] = [key(a), key(b)];
          if (x !== undefined && y !== undefined) return x - y;
          return a.cells[column].textContent.localeCompare(b.cells[column].textContent);
        };
        const rows = [...table.tBodies[0].rows].sort((a, b) => (up ? compare(a, b) : compare(b, a)));
        table.tBodies[0].append(...rows);
      };
      th.addEventListener('click', sort);
      th.addEventListener('keydown', (e) => { if (e.key === 'Enter' || e.key === ' ') { e.preventDefault(); sort(); } });
    });
  }
  document.querySelectorAll('#rows-table table, #kinds table').forEach(sorts);

  const theme = byId('theme');
  const label = () => { theme.textContent = dark() ? 'Light' : 'Dark'; };
  theme.addEventListener('click', () => {
    root.dataset.theme = dark() ? 'light' : 'dark';
    try { localStorage.setItem('atoll-theme', root.dataset.theme); } catch { /* a page from a file may have no storage */ }
    label();
    drawAll();
  });
  byId('patterns').addEventListener('click', (e) => {
    patterns = !patterns;
    e.target.setAttribute('aria-pressed', String(patterns));
    drawAll();
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { label(); drawAll(); });
  addEventListener('beforeprint', () => { printing = true; drawAll(); });
  addEventListener('afterprint', () => { printing = false; drawAll(); });
  label();

  // A page of other things than result rows has none to offer.
  const download = byId('download');
  if (download) {
    download.href = URL.createObjectURL(new Blob([JSON.parse(byId('rows').textContent)], { type: 'application/x-ndjson' }));
    download.download = 'rows.jsonl';
    download.hidden = false;
  }
  root.dataset.charts = String(figures.length);
})();
