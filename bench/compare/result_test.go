package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var some = []row{
	{Lock: "a & b", How: "x", Acknowledged: 100, Pauses: 9, Late: 5, Noticed: 1, verdict: verdict{Committed: 100, Lost: 7, Stale: 4, Duplicates: 3}},
	{Lock: "ours", How: "y", Acknowledged: 90, Pauses: 9, Late: 5, Refused: 4, verdict: verdict{Committed: 90}},
}

// words are the texts of an SVG, which must be well-formed.
func words(t *testing.T, svg string) string {
	t.Helper()
	var all []string
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return strings.Join(all, "|")
		}
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := token.(xml.CharData); ok {
			all = append(all, strings.TrimSpace(string(s)))
		}
	}
}

func TestChartSaysWhatTheTableSays(t *testing.T) {
	t.Parallel()
	got := words(t, chart(some))
	for _, want := range []string{"a & b", "7 lost", "4 stale", "ours", "0 lost, 0 stale, 4 refused"} {
		if !strings.Contains(got, want) {
			t.Errorf("the chart does not say %q: %s", want, got)
		}
	}
}

func TestResultIsWrittenBetweenTheMarkers(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "README.md")
	write := func(s string) {
		if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := result{rows: some, machine: "m", versions: "v"}
	write("before\n" + begins + "old\n" + ends + "after\n")
	for range 2 { // also over itself
		if err := r.save(file, ""); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(file)
	if want := "before\n" + begins + r.markdown() + ends + "after\n"; err != nil || string(b) != want {
		t.Errorf("got %v\n%s\nwant\n%s", err, b, want)
	}
	write("no markers\n")
	if err := r.save(file, ""); !errors.Is(err, errMarkers) {
		t.Errorf("got %v, want an error and an untouched file", err)
	}
	if b, _ := os.ReadFile(file); string(b) != "no markers\n" {
		t.Errorf("the file was written: %s", b)
	}
}

func TestHarmUnderFencedIsAnError(t *testing.T) {
	t.Parallel()
	var r result
	for range contenders() {
		r.rows = append(r.rows, some[0])
	}
	if err := r.check(); !errors.Is(err, errUnsafe) {
		t.Errorf("got %v, want an error", err)
	}
	for i, c := range contenders() {
		if c.ours {
			r.rows[i] = some[1]
		}
	}
	if err := r.check(); err != nil {
		t.Errorf("harm under the others is what it is, got %v", err)
	}
	r.rows = r.rows[:2]
	if err := r.check(); !errors.Is(err, errUnsafe) {
		t.Errorf("got %v without the row that matters, want an error", err)
	}
}

// TestReadmeShowsOneRun compares the table of the README with the chart beside
// it, which are written together.
func TestReadmeShowsOneRun(t *testing.T) {
	t.Parallel()
	rows := published(t)
	if len(rows) != len(contenders()) {
		t.Fatalf("the README has %d rows, want %d", len(rows), len(contenders()))
	}
	for i, c := range contenders() {
		if rows[i].Lock != c.name {
			t.Errorf("row %d is about %s, want %s", i, rows[i].Lock, c.name)
		}
	}
	svg, err := os.ReadFile("../../docs/compare.svg")
	if err != nil {
		t.Fatal(err)
	}
	if string(svg) != chart(rows) {
		t.Error("docs/compare.svg is not the chart of the README's table: run make compare")
	}
	if err := (result{rows: rows}).check(); err != nil {
		t.Error(err)
	}
}

var rowOf = regexp.MustCompile(`^\| ([^|:]+): ([^|]+) \| (\d+) \| (\d+) \((\d+)\) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| \*\*(\d+)\*\* \|$`)

// published reads the table of the README back.
func published(t *testing.T) (rows []row) {
	t.Helper()
	b, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), begins)
	shown, _, _ := strings.Cut(rest, ends)
	for text := range strings.Lines(shown) {
		m := rowOf.FindStringSubmatch(strings.TrimSpace(text))
		if m == nil {
			continue
		}
		var n [8]int
		for i := range n {
			if n[i], err = strconv.Atoi(m[i+3]); err != nil {
				t.Fatal(err)
			}
		}
		rows = append(rows, row{
			Lock: m[1], How: m[2], Acknowledged: n[0], Pauses: n[1], Late: n[2], Noticed: n[3], Refused: n[4],
			verdict: verdict{Committed: n[0], Stale: n[5], Duplicates: n[6], Lost: n[7]},
		})
	}
	if got := table(rows); !strings.Contains(shown, got) {
		t.Errorf("the table is not read back:\n%s", got)
	}
	return rows
}

func TestTableReadsBack(t *testing.T) {
	t.Parallel()
	for text := range strings.Lines(strings.TrimPrefix(table(some), head)) {
		if !rowOf.MatchString(strings.TrimSpace(text)) {
			t.Errorf("not a row: %s", text)
		}
	}
	if got := unknowns(append(some, row{Lock: "l", Unknown: 2})); got != "l: 2 writes of unknown outcome.\n" {
		t.Errorf("got %q", got)
	}
	if got := fmt.Sprint(unknowns(some)); got != "" {
		t.Errorf("got %q", got)
	}
}
