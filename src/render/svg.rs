//! Plans as SVG, drawn without any other program; readable on a light page and on a dark one.
//!
//! A plan is a sequence of nested sequences, so boxes stand below each other in the order in which they run, frames
//! round them, and no two boxes overlap by construction. Values flow down lanes at the right; cleanup edges, at the left.

use std::{collections::HashMap, fmt::Write};

use super::{
    PlanFormat, View,
    picture::{Frame, FrameKind, Item, LinkKind, Most, Node, NodeKind, Picture, picture},
    together,
};
use crate::page::escaped;

pub const FORMAT: PlanFormat =
    PlanFormat { name: "svg", summary: "a picture, rendered without external programs", render };

/// Inside of frames, and between boxes (where an arrow has room).
const PAD: f64 = 14.0;
const GAP: f64 = 22.0;
/// Of the narrowest box in a sequence, and of one in a grid.
const WIDTH: f64 = 300.0;
const CELL: f64 = 210.0;
const TITLE_LINE: f64 = 17.0;
const TEXT_LINE: f64 = 15.0;
const FRAME_TITLE: f64 = 24.0;
const LANE: f64 = 12.0;
const PORT: f64 = 15.0;
const MOST_LANES: usize = 40;
/// Of the label of a value.
const LABEL: usize = 22;
const TEXT_LINES: usize = 3;
/// Widths of a common letter in a wide font, by what it is written in.
const TEXT_EM: f64 = 7.1;
const TITLE_EM: f64 = 7.9;
const NAME_EM: f64 = 9.9;
const LABEL_EM: f64 = 5.9;

fn render(views: &[View<'_>]) -> String {
    let mut plans = Vec::new();
    let view = &together(views, &mut plans);
    // What was asked for is drawn, as long as something can show it.
    let most = if view.expand { 5_000 } else { 400 };
    draw(&picture(view, Most { nodes: most, links: 3 * most }))
}

/// A box with its place.
struct Placed<'a> {
    node: &'a Node,
    x: f64,
    y: f64,
    w: f64,
    h: f64,
    title: String,
    lines: Vec<String>,
    /// Where values come in and go out, from above.
    ports: usize,
}

struct Border<'a> {
    frame: &'a Frame,
    x: f64,
    y: f64,
    w: f64,
    h: f64,
}

#[derive(Default)]
struct Layout<'a> {
    boxes: Vec<Placed<'a>>,
    borders: Vec<Border<'a>>,
    arrows: Vec<(f64, f64, f64)>,
    /// Words between two branches.
    words: Vec<(f64, f64, &'static str)>,
    /// By the key of a node: how many values arrive, whether one leaves.
    ports: HashMap<usize, (usize, bool)>,
}

/// A line from one box to others, down a lane.
struct Route {
    from: usize,
    /// Boxes, and what the line is called there.
    to: Vec<(usize, String)>,
}

fn draw(picture: &Picture) -> String {
    let mut layout = Layout::default();
    for link in picture.links.iter().filter(|l| l.kind == LinkKind::Data) {
        layout.ports.entry(link.to).or_default().0 += 1;
        layout.ports.entry(link.from).or_default().1 = true;
    }
    let routes = |kind: LinkKind| {
        let mut routes: indexmap::IndexMap<usize, Vec<(usize, String)>> = indexmap::IndexMap::new();
        for link in picture.links.iter().filter(|l| l.kind == kind) {
            routes.entry(link.from).or_default().push((link.to, shortened(&link.label, LABEL)));
        }
        routes.into_iter().map(|(from, to)| Route { from, to }).collect::<Vec<_>>()
    };
    let (data, cleanup) = (routes(LinkKind::Data), routes(LinkKind::Finally));

    let mut body = String::new();
    // A task alone says its name on its frame.
    let named = !matches!(picture.items.as_slice(), [Item::Frame(only)] if only.title == picture.title);
    let top = if named { 2.0 * PAD + TITLE_LINE } else { PAD };
    let columns = match picture.items.len() {
        n @ 0..4 => n.max(1),
        n => n.isqrt() + 1,
    };
    let (mut x, mut y, mut row_height, mut width) = (PAD, top, 0.0_f64, 0.0_f64);
    for (i, item) in picture.items.iter().enumerate() {
        if i > 0 && i % columns == 0 {
            (x, y) = (PAD, y + row_height + GAP);
            row_height = 0.0;
        }
        let (w, h) = layout.group(item, x, y, &data, &cleanup, &mut body);
        x += w + GAP;
        row_height = row_height.max(h);
        width = width.max(x - GAP + PAD);
    }
    let height = y + row_height + PAD;
    let title = if named { fitted(&picture.title, 600.0, NAME_EM) } else { String::new() };
    let width = width.max(estimated(&title, NAME_EM) + 2.0 * PAD).max(200.0);

    let mut out = String::with_capacity(body.len() + 4096);
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{0}\">\n<title>{0}</title>\n\
         <style>{STYLE}</style>\n<defs>{MARKERS}</defs>\n\
         <rect class=\"page\" width=\"100%\" height=\"100%\" rx=\"8\"/>\n\
         <text class=\"name\" x=\"{PAD}\" y=\"{1}\">{2}</text>\n",
        escaped(&picture.title),
        PAD + 14.0,
        escaped(&title),
    );
    out += &body;
    out += "</svg>\n";
    out
}

impl<'a> Layout<'a> {
    /// Places and writes what stands at the top: usually a task. Gives its size.
    fn group(
        &mut self,
        item: &'a Item,
        x: f64,
        y: f64,
        data: &[Route],
        cleanup: &[Route],
        out: &mut String,
    ) -> (f64, f64) {
        self.boxes.clear();
        self.borders.clear();
        self.arrows.clear();
        self.words.clear();
        let width = WIDTH + 2.0 * PAD * depth(item) as f64;
        let (width, height) = self.item(item, 0.0, 0.0, width);
        let at: HashMap<usize, usize> = self.boxes.iter().enumerate().map(|(i, b)| (b.node.key, i)).collect();
        let (right, right_width) = self.lanes(&at, data, width, false);
        let (left, left_width) = self.lanes(&at, cleanup, 0.0, true);
        let _ = writeln!(out, "<g transform=\"translate({:.1} {y:.1})\">", x + left_width);
        self.write(out);
        out.push_str(&left);
        out.push_str(&right);
        out.push_str("</g>\n");
        (left_width + width + right_width, height)
    }

    /// Places an item, no wider than `w`; gives its size.
    fn item(&mut self, item: &'a Item, x: f64, y: f64, w: f64) -> (f64, f64) {
        match item {
            Item::Node(node) => (w, self.node(node, x, y, w)),
            Item::Frame(frame) => {
                let border = self.borders.len();
                self.borders.push(Border { frame, x, y, w, h: 0.0 });
                let top = y + head(frame);
                let (inner_w, inner_h) = match frame.kind {
                    FrameKind::Grid => self.grid(&frame.items, x + PAD, top),
                    _ => (w - 2.0 * PAD, self.stack(&frame.items, x + PAD, top, w - 2.0 * PAD)),
                };
                let (w, h) = (inner_w + 2.0 * PAD, head(frame) + inner_h + PAD);
                (self.borders[border].w, self.borders[border].h) = (w, h);
                (w, h)
            }
        }
    }

    fn stack(&mut self, items: &'a [Item], x: f64, mut y: f64, w: f64) -> f64 {
        let top = y;
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                let branch = |item: &Item| matches!(item, Item::Frame(f) if f.kind == FrameKind::Branch);
                match branch(item) && branch(&items[i - 1]) {
                    true => self.words.push((x + w / 2.0, y + GAP / 2.0 + 4.0, "or")),
                    false => self.arrows.push((x + w / 2.0, y, y + GAP)),
                }
                y += GAP;
            }
            y += self.item(item, x, y, w).1;
        }
        y - top
    }

    fn grid(&mut self, items: &'a [Item], x: f64, y: f64) -> (f64, f64) {
        // Wider than high: boxes are.
        let columns = (items.len().isqrt() + 1).clamp(1, items.len().max(1)).min(8);
        let gap = PAD / 1.5;
        let (mut top, mut height) = (y, 0.0_f64);
        for (i, item) in items.iter().enumerate() {
            if i > 0 && i % columns == 0 {
                top += height + gap;
                height = 0.0;
            }
            let left = x + (i % columns) as f64 * (CELL + gap);
            height = height.max(self.item(item, left, top, CELL).1);
        }
        (columns as f64 * (CELL + gap) - gap, top + height - y)
    }

    fn node(&mut self, node: &'a Node, x: f64, y: f64, w: f64) -> f64 {
        let room = w - 28.0;
        let lines = wrapped(&node.text, room, TEXT_EM);
        let (arriving, leaving) = self.ports.get(&node.key).copied().unwrap_or_default();
        let ports = arriving + usize::from(leaving);
        let h = 12.0 + TITLE_LINE + TEXT_LINE * lines.len() as f64 + 4.0;
        let h = h.max(PORT * ports as f64 + 8.0);
        self.boxes.push(Placed { node, x, y, w, h, title: fitted(&node.title, room, TITLE_EM), lines, ports });
        h
    }

    /// Draws lines along one side; gives what is drawn and how wide it is.
    fn lanes(&self, at: &HashMap<usize, usize>, routes: &[Route], edge: f64, left: bool) -> (String, f64) {
        let mine: Vec<(&Placed<'_>, Vec<(&Placed<'_>, &str)>)> = routes
            .iter()
            .filter_map(|route| {
                let from = &self.boxes[*at.get(&route.from)?];
                let to = route.to.iter().filter_map(|(key, label)| Some((&self.boxes[*at.get(key)?], label.as_str())));
                Some((from, to.collect::<Vec<_>>())).filter(|(_, to)| !to.is_empty())
            })
            .collect();
        if mine.is_empty() {
            return (String::new(), 0.0);
        }
        // Short ones next to the boxes: they cross the fewest others.
        let span = |from: &Placed<'_>, to: &[(&Placed<'_>, &str)]| {
            let ends = to.iter().map(|(b, _)| b.y).chain([from.y]);
            ends.fold((f64::MAX, f64::MIN), |(low, high), y| (low.min(y), high.max(y + 40.0)))
        };
        let mut order: Vec<usize> = (0..mine.len()).collect();
        let spans: Vec<_> = mine.iter().map(|(from, to)| span(from, to)).collect();
        order.sort_by(|&a, &b| (spans[a].1 - spans[a].0).total_cmp(&(spans[b].1 - spans[b].0)).then(a.cmp(&b)));
        let mut lanes: Vec<Vec<(f64, f64)>> = Vec::new();
        let mut lane_of = vec![0; mine.len()];
        for route in order {
            let (low, high) = spans[route];
            let free = lanes.iter().position(|taken| taken.iter().all(|(l, h)| high < *l || *h < low));
            let lane = free.unwrap_or_else(|| {
                if lanes.len() < MOST_LANES {
                    lanes.push(Vec::new());
                }
                lanes.len() - 1
            });
            lanes[lane].push((low, high));
            lane_of[route] = lane;
        }
        let widest =
            mine.iter().flat_map(|(_, to)| to).map(|(_, label)| estimated(label, LABEL_EM)).fold(0.0, f64::max);
        let strip = widest + 16.0;
        let side = if left { -1.0 } else { 1.0 };
        let mut arrived: HashMap<usize, usize> = HashMap::new();
        let mut out = String::new();
        for (route, (from, to)) in mine.iter().enumerate() {
            let lane = edge + side * (strip + LANE * lane_of[route] as f64);
            let class = if left { "pending".to_owned() } else { format!("data d{}", route % 6) };
            let border = |b: &Placed<'_>| if left { b.x } else { b.x + b.w };
            let start = match left {
                true => from.y + from.h / 2.0,
                // The last port is the one that leaves.
                false => port(from, from.ports.saturating_sub(1)),
            };
            for (box_, label) in to {
                let end = match left {
                    true => box_.y + box_.h / 2.0,
                    false => {
                        let nth = arrived.entry(box_.node.key).or_default();
                        *nth += 1;
                        port(box_, *nth - 1)
                    }
                };
                let (bend, turn) = (6.0_f64.min((end - start).abs() / 2.0), (end - start).signum());
                let _ = writeln!(
                    out,
                    "<path class=\"{class}\" d=\"M{:.1} {start:.1}H{:.1}Q{lane:.1} {start:.1} {lane:.1} {:.1}V{:.1}Q{lane:.1} {end:.1} {:.1} {end:.1}H{:.1}\" marker-end=\"url(#{})\"/>",
                    border(from),
                    lane - side * bend,
                    start + turn * bend,
                    end - turn * bend,
                    lane - side * bend,
                    border(box_) + side * 5.0,
                    if left { "mo".to_owned() } else { format!("m{}", route % 6) },
                );
                let (x, anchor) = (edge + side * 7.0, if left { "end" } else { "start" });
                let _ = writeln!(
                    out,
                    "<text class=\"label {class}\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
                    end - 3.5,
                    escaped(label),
                );
            }
        }
        (out, strip + LANE * lanes.len() as f64)
    }

    fn write(&self, out: &mut String) {
        for Border { frame, x, y, w, h } in &self.borders {
            let class = match frame.kind {
                FrameKind::Task | FrameKind::Grid => "task",
                FrameKind::Phase => "phase",
                _ => "block",
            };
            let outcome = frame.outcome.map_or_else(String::new, |o| format!(" {}", o.name()));
            let title = if frame.kind == FrameKind::Step {
                String::new()
            } else {
                fitted(&frame.title, w - 2.0 * PAD, TEXT_EM)
            };
            let _ = writeln!(
                out,
                "<rect class=\"frame {class}{outcome}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{h:.1}\" rx=\"8\"/>\
                 <text class=\"frame-title {class}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                x + PAD,
                y + 17.0,
                escaped(&title),
            );
        }
        for (x, from, to) in &self.arrows {
            let _ = writeln!(
                out,
                "<path class=\"order\" d=\"M{x:.1} {from:.1}V{:.1}\" marker-end=\"url(#mn)\"/>",
                to - 5.0
            );
        }
        for (x, y, word) in &self.words {
            let _ =
                writeln!(out, "<text class=\"word\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{word}</text>");
        }
        for Placed { node, x, y, w, h, title, lines, .. } in &self.boxes {
            let kind = node.kind.class();
            let outcome = node.outcome.map_or_else(String::new, |o| format!(" {}", o.name()));
            let full = if node.text.is_empty() { node.title.clone() } else { format!("{}: {}", node.title, node.text) };
            let rx = if node.kind == NodeKind::Agent { 14 } else { 6 };
            let _ = writeln!(
                out,
                "<g class=\"node {kind}{outcome}\"><title>{}</title>\
                 <rect class=\"box\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{h:.1}\" rx=\"{rx}\"/>\
                 <path class=\"bar\" d=\"M{:.1} {:.1}V{:.1}\"/>",
                escaped(&full),
                x + 6.0,
                y + 8.0,
                y + h - 8.0,
            );
            let (x, mut y) = (x + 15.0, y + 12.0 + 8.0);
            let _ = write!(out, "<text class=\"title\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escaped(title));
            y += TITLE_LINE - TEXT_LINE;
            for line in lines {
                y += TEXT_LINE;
                let _ = write!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escaped(line));
            }
            out.push_str("</g>\n");
        }
    }
}

/// The room above what is in a frame. The first box of a step's frame says what the frame is.
fn head(frame: &Frame) -> f64 {
    if frame.kind == FrameKind::Step { PAD } else { FRAME_TITLE + 2.0 }
}

/// How deep frames are nested; a frame without frames is 1 deep.
fn depth(item: &Item) -> usize {
    match item {
        Item::Node(_) => 0,
        Item::Frame(frame) => 1 + frame.items.iter().map(depth).max().unwrap_or(0),
    }
}

fn port(placed: &Placed<'_>, nth: usize) -> f64 {
    placed.y + placed.h * (nth as f64 + 1.0) / (placed.ports as f64 + 1.0)
}

/// How wide a text will be, rather too wide: the font is the reader's. `em` is the width of a common letter.
fn estimated(text: &str, em: f64) -> f64 {
    let width = |c: char| match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | '/' | '\\' | ' ' => 0.56,
        '(' | ')' | '[' | ']' | 'f' | 't' | 'r' | 'I' | '-' => 0.7,
        'm' | 'w' | 'M' | 'W' | '@' | '%' | '…' => 1.7,
        '=' | '+' | '<' | '>' | '~' | '#' | '^' => 1.42,
        'A'..='Z' => 1.27,
        '0'..='9' | '_' | '$' | '{' | '}' | '&' => 1.1,
        '\0'..='\u{ff}' => 1.0,
        '\u{1100}'.. => 2.1,
        _ => 1.2,
    };
    text.chars().map(|c| width(c) * em).sum()
}

/// As much of a text as fits into one line.
fn fitted(text: &str, room: f64, em: f64) -> String {
    if estimated(text, em) <= room {
        return text.to_owned();
    }
    let mut used = 2.0 * em;
    let fits = text.chars().take_while(|c| {
        used += estimated(c.encode_utf8(&mut [0; 4]), em);
        used <= room
    });
    let mut head: String = fits.collect();
    head.push('…');
    head
}

fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A text in a few lines, broken between words where that is possible.
fn wrapped(text: &str, room: f64, em: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        if lines.len() + 1 == TEXT_LINES || estimated(rest, em) <= room {
            lines.push(fitted(rest, room, em));
            break;
        }
        let mut used = 0.0;
        let over = rest.char_indices().find(|(_, c)| {
            used += estimated(c.encode_utf8(&mut [0; 4]), em);
            used > room
        });
        let end = over.map_or(rest.len(), |(at, c)| at.max(c.len_utf8()));
        let space = rest[..end].rfind(' ').filter(|&space| space > end / 2).unwrap_or(end);
        lines.push(rest[..space].trim_end().to_owned());
        rest = rest[space..].trim_start();
    }
    lines
}

const STYLE: &str = "\
:root{--page:#fff;--ink:#0f172a;--soft:#475569;--line:#94a3b8;--edge:#cbd5e1;--fill:#f8fafc;--phase:#f1f5f9;--step:#64748b;--control:#4f46e5;--agent:#7c3aed;--assertion:#0f766e;--cleanup:#b45309;--ok:#15803d;--okf:#dcfce7;--no:#b91c1c;--nof:#fee2e2;--skip:#64748b;--skipf:#e2e8f0;--stop:#a16207;--stopf:#fef9c3;--d0:#2563eb;--d1:#0891b2;--d2:#9333ea;--d3:#be185d;--d4:#4d7c0f;--d5:#c2410c}\
@media (prefers-color-scheme:dark){:root{--page:#0d1117;--ink:#e6edf3;--soft:#a3b1c2;--line:#64748b;--edge:#334155;--fill:#161b22;--phase:#11161d;--step:#94a3b8;--control:#a5b4fc;--agent:#c4b5fd;--assertion:#5eead4;--cleanup:#fbbf24;--ok:#4ade80;--okf:#0f2a1a;--no:#f87171;--nof:#3a1416;--skip:#94a3b8;--skipf:#1e293b;--stop:#facc15;--stopf:#2d2708;--d0:#60a5fa;--d1:#22d3ee;--d2:#c084fc;--d3:#f472b6;--d4:#a3e635;--d5:#fb923c}}\
text{font:12px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:var(--soft);unicode-bidi:isolate}\
.page{fill:var(--page)}.name{font-size:15px;font-weight:600;fill:var(--ink)}\
.frame{fill:none;stroke:var(--edge)}.frame.phase{fill:var(--phase)}.frame.block{stroke-dasharray:4 3}\
.frame.passed{stroke:var(--ok)}.frame.failed,.frame.broken{stroke:var(--no)}.frame.cancelled{stroke:var(--stop)}\
.frame-title{font-size:11.5px;font-weight:600}.frame-title.task{fill:var(--ink)}\
.box{fill:var(--fill);stroke:var(--line)}.title{font-weight:600;fill:var(--ink)}.bar{stroke:var(--step);stroke-width:3;stroke-linecap:round}\
.control .bar{stroke:var(--control)}.agent .bar{stroke:var(--agent)}.agent .box{stroke:var(--agent)}.assertion .bar{stroke:var(--assertion)}.cleanup .bar{stroke:var(--cleanup)}\
.passed .box{fill:var(--okf);stroke:var(--ok)}.failed .box,.broken .box{fill:var(--nof);stroke:var(--no)}.broken .box{stroke-width:2}.skipped .box{fill:var(--skipf);stroke:var(--skip);stroke-dasharray:3 3}.cancelled .box{fill:var(--stopf);stroke:var(--stop)}\
path{fill:none}.order{stroke:var(--line);stroke-width:1.3}.pending{stroke:var(--cleanup);stroke-dasharray:4 3}.data{stroke-width:1.3}\
.d0{stroke:var(--d0)}.d1{stroke:var(--d1)}.d2{stroke:var(--d2)}.d3{stroke:var(--d3)}.d4{stroke:var(--d4)}.d5{stroke:var(--d5)}\
text.label{font-size:10px;stroke:none;paint-order:stroke}text.d0{fill:var(--d0)}text.d1{fill:var(--d1)}text.d2{fill:var(--d2)}text.d3{fill:var(--d3)}text.d4{fill:var(--d4)}text.d5{fill:var(--d5)}text.pending{fill:var(--cleanup)}\
.word{font-style:italic}marker path{stroke:none}\
.mn{fill:var(--line)}.mo{fill:var(--cleanup)}.m0{fill:var(--d0)}.m1{fill:var(--d1)}.m2{fill:var(--d2)}.m3{fill:var(--d3)}.m4{fill:var(--d4)}.m5{fill:var(--d5)}";

const MARKERS: &str = "\
<marker id=\"mn\" viewBox=\"0 0 8 8\" refX=\"3\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path class=\"mn\" d=\"M0 0.5L8 4L0 7.5z\"/></marker>\
<marker id=\"mo\" viewBox=\"0 0 8 8\" refX=\"3\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path class=\"mo\" d=\"M0 0.5L8 4L0 7.5z\"/></marker>\
<marker id=\"m0\" viewBox=\"0 0 8 8\" refX=\"3\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path class=\"m0\" d=\"M0 0.5L8 4L0 7.5z\"/></marker>\
<marker id=\"m1\" viewBox=\"0 0 8 8\" refX=\"3\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path class=\"m1\" d=\"M0 0.5L8 4L0 7.5z\"/></marker>\
<marker id=\"m2\" viewBox=\"0 0 8 8\" refX=\"3\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path class=\"m2\" d=\"M0 0.5L8 4L0 7.5z\"/></marker>\
<marker id=\"m3\" viewBox=\"0 0 8 8\" refX=\"3\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path class=\"m3\" d=\"M0 0.5L8 4L0 7.5z\"/></marker>\
<marker id=\"m4\" viewBox=\"0 0 8 8\" refX=\"3\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path class=\"m4\" d=\"M0 0.5L8 4L0 7.5z\"/></marker>\
<marker id=\"m5\" viewBox=\"0 0 8 8\" refX=\"3\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path class=\"m5\" d=\"M0 0.5L8 4L0 7.5z\"/></marker>";
