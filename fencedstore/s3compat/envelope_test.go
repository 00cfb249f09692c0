package s3compat

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/fenced-go/fenced/fencedstore"
)

var testFence = fencedstore.Fence{Resource: "invoices/2026", ID: 1<<53 + 1, Holder: "h"}

func inlineEntry(value string) *entry {
	sum := sha256.Sum256([]byte(value))
	return &entry{Fence: 1, Size: int64(len(value)), SHA256: hex.EncodeToString(sum[:]), At: "t", value: []byte(value)}
}

func sample() *envelope {
	var e *envelope
	for range maxHistory + 3 {
		e = e.next(testFence, time.Unix(1, 0))
	}
	e.set("b", inlineEntry("bytes\x00\n\xff"))
	e.set("a", inlineEntry(""))
	e.set("c <&> é", inlineEntry("third"))
	e.set("data", &entry{Fence: 5, Size: 1 << 40, ETag: "x-3", At: "t", Data: "d/00000000000000000005/000000000001-A", Type: "text/csv", Metadata: map[string]string{"k": "v"}})
	e.set("gone", &entry{Fence: 4, Size: 1, ETag: "x", At: "t", Data: "d/00000000000000000004/000000000001-A"})
	e.set("gone", nil)
	return e
}

// spilled is a register whose entries are elsewhere.
func spilled() *envelope {
	e := sample()
	e.Entries = nil
	e.Manifest = &manifest{Data: "d/00000000000000000005/000000000001-M", Size: 5, SHA256: strings.Repeat("0", 64), ETag: "x"}
	return e
}

func mustEncode(tb testing.TB, e *envelope) []byte {
	tb.Helper()
	b, err := e.encode()
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func TestRegisterComesBackAsItWas(t *testing.T) {
	t.Parallel()
	want := sample()
	b := mustEncode(t, want)
	got, err := decode(b)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if again := mustEncode(t, got); !bytes.Equal(again, b) {
		t.Error("the bytes are others when written again")
	}
}

// What is documented: lines, numbers as strings, payload in the order of keys.
func TestRegisterIsReadableByOthers(t *testing.T) {
	t.Parallel()
	b := string(mustEncode(t, sample()))
	head, rest, _ := strings.Cut(b, "\n")
	sum := sha256.Sum256([]byte(rest))
	if want := "fenced-register 1 sha256=" + hex.EncodeToString(sum[:]); head != want {
		t.Errorf("first line: got %s, want %s", head, want)
	}
	line, payload, _ := strings.Cut(rest, "\n")
	if want := "bytes\x00\n\xffthird"; payload != want {
		t.Errorf("payload: got %q, want %q", payload, want)
	}
	for _, want := range []string{
		`"resource":"invoices%2F2026"`, `"fence":"9007199254740993"`, `"seq":"67"`, `"c <&> é":`, `"offset":"8"`, `"size":"1099511627776"`,
	} {
		if !strings.Contains(line, want) {
			t.Errorf("%s is not in %s", want, line)
		}
	}
	if strings.Contains(line, `"holder":"h"`) {
		t.Error("the holder is shown")
	}
}

func TestHistoryIsARing(t *testing.T) {
	t.Parallel()
	var e *envelope
	writes := map[int64]string{}
	for seq := int64(1); seq <= 3*maxHistory; seq++ {
		e = e.next(testFence, time.Unix(1, 0))
		writes[seq] = e.Write
		if e.Seq != seq {
			t.Fatalf("got version %d, want %d", e.Seq, seq)
		}
		for back := range int64(maxHistory + 2) {
			got, ok := e.writeAt(seq - back)
			if want := back <= maxHistory && seq-back >= 1; ok != want || ok && got != writes[seq-back] {
				t.Fatalf("version %d, %d back: got %s, %t", seq, back, got, ok)
			}
		}
		if _, ok := e.writeAt(seq + 1); ok {
			t.Fatal("the history knows the future")
		}
	}
}

// resigned is a register with its second line changed and its checksum right.
func resigned(b []byte, old, with string) []byte {
	head, rest, _ := bytes.Cut(b, []byte("\n"))
	version := formatInline
	if bytes.HasPrefix(head, []byte(magic+" 2 ")) {
		version = formatSpilled
	}
	rest = bytes.Replace(rest, []byte(old), []byte(with), 1)
	sum := sha256.Sum256(rest)
	return append(fmt.Appendf(nil, "%s %d sha256=%x\n", magic, version, sum), rest...)
}

func TestRegisterThatContradictsItselfIsCorrupt(t *testing.T) {
	t.Parallel()
	good := mustEncode(t, sample())
	if _, err := decode(resigned(good, "seq", "seq")); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string][2]string{
		"no fence":                 {`"fence":"9007199254740993"`, `"fence":"0"`},
		"fence below an entry's":   {`"fence":"9007199254740993"`, `"fence":"4"`},
		"fence as a number":        {`"fence":"9007199254740993"`, `"fence":9007199254740993`},
		"no version":               {`"seq":"67"`, `"seq":"0"`},
		"less versions than known": {`"seq":"67"`, `"seq":"64"`},
		"entry outside":            {`"offset":"8"`, `"offset":"9"`},
		"entry before":             {`"offset":"8"`, `"offset":"-1"`},
		"entry far outside":        {`"offset":"8"`, `"offset":"9223372036854775807"`},
		"negative size":            {`"size":"5"`, `"size":"-5"`},
		"huge size":                {`"size":"5"`, `"size":"9223372036854775807"`},
		"data elsewhere":           {`"data":"d/00000000000000000005/`, `"data":"../00000000000000000005/`},
		"data of a later tenure":   {`"data":"d/00000000000000000005/`, `"data":"d/00000000000000000006/`},
		"dropped data elsewhere":   {`"dropped":[{"data":"d/`, `"dropped":[{"data":"e/`},
		"null entry":               {`"entries":{`, `"entries":{"n":null,`},
		"empty key":                {`"entries":{"a":`, `"entries":{"":`},
		"not JSON":                 {`{`, `[`},
		"other payload":            {"third", "fifth"},
	} {
		if _, err := decode(resigned(good, c[0], c[1])); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: got %v, want ErrCorrupt", name, err)
		}
	}
	elsewhere := mustEncode(t, spilled())
	for name, c := range map[string][2]string{
		"manifest elsewhere":         {`"data":"d/`, `"data":"e/`},
		"manifest of a later tenure": {`"data":"d/00000000000000000005/`, `"data":"d/09000000000000000005/`},
		"huge manifest":              {`"size":"5"`, `"size":"9223372036854775807"`},
		"negative manifest":          {`"size":"5"`, `"size":"-5"`},
		"entries beside it":          {`"manifest":`, `"entries":{},"manifest":`},
		"payload beside it":          {"}\n", "}\nx"},
		"no manifest":                {`"manifest":`, `"manifold":`},
		"two lines":                  {`"manifest":{`, "\"manifest\":{\n"},
	} {
		if _, err := decode(resigned(elsewhere, c[0], c[1])); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: got %v, want ErrCorrupt", name, err)
		}
	}
	if _, err := decode(bytes.Replace(elsewhere, []byte(magic+" 2"), []byte(magic+" 1"), 1)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("version 1 with a manifest: got %v, want ErrCorrupt", err)
	}
	for name, b := range map[string]string{
		"nothing": "", "one line": "fenced-register 1 sha256=0", "no checksum": "fenced-register 1\n{}\n", "version 0": "fenced-register 0 sha256=0\n{}\n",
		"something else": "hello\n", "version x": "fenced-register x sha256=0\n{}\n", "more on the first line": "fenced-register 1 more sha256=0\n{}\n",
	} {
		if _, err := decode([]byte(b)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: got %v, want ErrCorrupt", name, err)
		}
	}
}

func TestNamesAreOneSafeSegment(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 500)
	seen := map[string]string{}
	for _, name := range []string{
		"invoices", "a/b", "a%2Fb", "..", ".", "...", ".hidden", "a.b", "~", "é", "\x00\xff", "A", "a", " ", long, long + "y", strings.Repeat("/", 512), "register", "d",
	} {
		got := segment(name)
		if strings.ContainsAny(got, "/\\ \x00") || strings.HasPrefix(got, ".") || got == "" || len(got) > 200 {
			t.Errorf("%q: got %q", name, got)
		}
		if other, ok := seen[got]; ok {
			t.Errorf("%q and %q are both %q", name, other, got)
		}
		seen[got] = name
	}
}

func TestDroppedDataIsBounded(t *testing.T) {
	t.Parallel()
	e := sample()
	for i := range 2 * maxDropped {
		e.set("k", &entry{Fence: 5, Data: fmt.Sprintf("d/00000000000000000005/%012d-A", i)})
	}
	if len(e.Dropped) != maxDropped {
		t.Errorf("got %d, want %d", len(e.Dropped), maxDropped)
	}
	if got, want := e.Dropped[maxDropped-1].Data, fmt.Sprintf("d/00000000000000000005/%012d-A", 2*maxDropped-2); got != want {
		t.Errorf("newest: got %s, want %s", got, want)
	}
}

func FuzzDecode(f *testing.F) {
	good := mustEncode(f, sample())
	f.Add(good)
	f.Add(mustEncode(f, (*envelope)(nil).next(testFence, time.Unix(1, 0))))
	f.Add(mustEncode(f, spilled()))
	f.Add([]byte("fenced-register 3 \n"))
	f.Add([]byte("fenced-register 1 sha256=\n{}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, resigned(b, "", "")} {
			e, err := decode(b)
			if err != nil {
				if e != nil || !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
					t.Fatalf("got %v, %v", e, err)
				}
				continue
			}
			again, err := e.encode()
			if errors.Is(err, ErrTooLarge) {
				continue
			}
			back, err := decode(again)
			if err != nil {
				t.Fatalf("written again it is %v", err)
			}
			if back.Fence != e.Fence || back.Seq != e.Seq || !maps.EqualFunc(back.Entries, e.Entries, func(a, b *entry) bool { return bytes.Equal(a.value, b.value) }) {
				t.Fatalf("got %+v, want %+v", back, e)
			}
		}
	})
}

func TestManifestComesBackAsItWas(t *testing.T) {
	t.Parallel()
	want := sample().Entries
	b, err := encodeManifest(want)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	m := &manifest{Size: int64(len(b)), SHA256: hex.EncodeToString(sum[:])}
	got, err := m.decode(b, testFence.ID)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func FuzzDecodeManifest(f *testing.F) {
	good, err := encodeManifest(sample().Entries)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte("null\n"))
	f.Add([]byte("{}\n"))
	f.Add([]byte(`{"k":null}` + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		sum := sha256.Sum256(b)
		m := &manifest{Size: int64(len(b)), SHA256: hex.EncodeToString(sum[:])}
		got, err := m.decode(b, testFence.ID)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("got %v", err)
			}
			return
		}
		again, err := encodeManifest(got)
		if err != nil {
			t.Fatal(err)
		}
		sum = sha256.Sum256(again)
		m = &manifest{Size: int64(len(again)), SHA256: hex.EncodeToString(sum[:])}
		if back, err := m.decode(again, testFence.ID); err != nil || len(back) != len(got) {
			t.Fatalf("written again it is %v, %v", back, err)
		}
	})
}

// On AWS the SDK's own checksums stay; elsewhere they break stores.
func TestChecksumsAreLeftToAWS(t *testing.T) {
	t.Parallel()
	for endpoint, plain := range map[string]bool{
		"":                                      false,
		"https://s3.eu-central-1.amazonaws.com": false,
		"https://bucket.vpce-1.s3.eu-central-1.vpce.amazonaws.com": false,
		"https://s3.cn-north-1.amazonaws.com.cn":                   false,
		"http://127.0.0.1:7070":                                    true,
		"https://amazonaws.com.example.org":                        true,
		"https://account.r2.cloudflarestorage.com":                 true,
		"::": true,
	} {
		var o s3.Options
		if endpoint != "" {
			o.BaseEndpoint = &endpoint
		}
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenSupported
		new(Store).tune(&o)
		if got := o.RequestChecksumCalculation == aws.RequestChecksumCalculationWhenRequired; got != plain {
			t.Errorf("%q: plain is %t, want %t", endpoint, got, plain)
		}
	}
}
