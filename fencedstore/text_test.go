package fencedstore_test

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fenced-go/fenced/fencedstore"
)

func TestStringEscapesAllButPlainBytes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		fence fencedstore.Fence
		want  string
	}{
		{valid, "42:4f1c:invoices"},
		{fencedstore.Fence{Resource: "AZaz09-._~/", ID: 1, Holder: "h"}, "1:h:AZaz09-._~/"},
		{fencedstore.Fence{Resource: "a:b", ID: 1, Holder: "h:i"}, "1:h%3Ai:a%3Ab"},
		{fencedstore.Fence{Resource: "a b%\n", ID: 1, Holder: "h"}, "1:h:a%20b%25%0A"},
		{fencedstore.Fence{Resource: "é", ID: 1, Holder: "h"}, "1:h:%C3%A9"},
		{fencedstore.Fence{Resource: "\x00\xff", ID: 1, Holder: "h"}, "1:h:%00%FF"},
		{fencedstore.Fence{Resource: "r", ID: math.MaxInt64, Holder: "h"}, "9223372036854775807:h:r"},
	}
	for _, tt := range tests {
		if got := tt.fence.String(); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
		if got, err := fencedstore.ParseFence(tt.want); err != nil || got != tt.fence {
			t.Errorf("ParseFence(%s): got %v, %v", tt.want, got, err)
		}
	}
}

func TestTextOfTheLongestFenceIsRead(t *testing.T) {
	t.Parallel()
	longest := fencedstore.Fence{
		Resource: strings.Repeat("\x00", fencedstore.MaxResource),
		ID:       math.MaxInt64,
		Holder:   strings.Repeat(":", fencedstore.MaxHolder),
	}
	got, err := fencedstore.ParseFence(longest.String())
	if err != nil || got != longest {
		t.Errorf("got %v, want the longest fence", err)
	}
	if _, err := fencedstore.ParseFence(longest.String() + "x"); !errors.Is(err, fencedstore.ErrInvalidFence) {
		t.Errorf("one byte more: got %v, want ErrInvalidFence", err)
	}
}

// refusedIDs are spellings of a number that some parser accepts and that are
// not the one spelling of a fence ID.
var refusedIDs = map[string]string{
	"empty":                     "",
	"zero":                      "0",
	"plus sign":                 "+8",
	"minus sign":                "-1",
	"space before":              " 8",
	"space after":               "8 ",
	"space inside":              "8 8",
	"tab":                       "\t8",
	"newline":                   "8\n",
	"NUL":                       "8\x00",
	"leading zero":              "08",
	"only zeros":                "000",
	"exponent":                  "9e3",
	"exponent with fraction":    "9.007199254740993e15",
	"fraction":                  "8.0",
	"bare point":                "8.",
	"hexadecimal":               "0x8",
	"hexadecimal digits":        "8f",
	"octal":                     "0o10",
	"binary":                    "0b1",
	"underscore":                "1_000",
	"comma":                     "1,000",
	"arabic digit":              "٨",
	"full-width digit":          "８",
	"superscript digit":         "²",
	"mathematical digit":        "𝟖",
	"digits with a mark":        "8\u0301",
	"byte order mark":           "\ufeff8",
	"no-break space":            "\u00a08",
	"invalid UTF-8":             "8\xff",
	"one more than an int64":    "9223372036854775808",
	"largest uint64":            "18446744073709551615",
	"twenty digits":             "10000000000000000000",
	"negative int64":            "-9223372036854775808",
	"infinity":                  "Inf",
	"not a number":              "NaN",
	"null":                      "null",
	"quoted":                    `"8"`,
	"percent-escaped digit":     "%38",
	"nineteen digits, too many": "9999999999999999999",
}

func TestParseIDRefusesEveryOtherSpelling(t *testing.T) {
	t.Parallel()
	for name, s := range refusedIDs {
		if id, err := fencedstore.ParseID(s); !errors.Is(err, fencedstore.ErrInvalidFence) || id != 0 {
			t.Errorf("%s: got %d, %v, want 0, ErrInvalidFence", name, id, err)
		}
		if f, err := fencedstore.ParseFence(s + ":h:r"); !errors.Is(err, fencedstore.ErrInvalidFence) || f != (fencedstore.Fence{}) {
			t.Errorf("%s, in a fence: got %v, %v, want ErrInvalidFence", name, f, err)
		}
	}
}

func TestParseIDIsExact(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]int64{
		"1":                   1,
		"2147483648":          1 << 31,
		"9007199254740993":    1<<53 + 1,
		"1000000000000000000": 1e18,
		"9223372036854775807": math.MaxInt64,
	} {
		if got, err := fencedstore.ParseID(s); err != nil || got != want {
			t.Errorf("%s: got %d, %v, want %d", s, got, err, want)
		}
	}
}

func TestParseFenceRefusesEveryOtherSpelling(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]string{
		"empty":                       "",
		"no colon":                    "42",
		"one colon":                   "42:h",
		"three colons":                "42:h:r:s",
		"only colons":                 "::",
		"no ID":                       ":h:r",
		"no holder":                   "42::r",
		"no resource":                 "42:h:",
		"lower-case escape":           "42:h:a%3ab",
		"escape of a plain byte":      "42:h:%41",
		"escape of a plain slash":     "42:h:a%2Fb",
		"escape cut after the sign":   "42:h:a%",
		"escape cut after one digit":  "42:h:a%3",
		"escape without digits":       "42:h:a%zz",
		"escape in the holder is bad": "42:h%4:r",
		"raw space":                   "42:h:a b",
		"raw plus":                    "42:h:a+b",
		"raw newline":                 "42:h:a\n",
		"raw NUL":                     "42:h:\x00",
		"raw letter beyond ASCII":     "42:h:é",
		"raw space in the holder":     "42:h i:r",
		"space before":                " 42:h:r",
		"quotes":                      `"42:h:r"`,
		"holder of 129 bytes":         "42:" + strings.Repeat("h", 129) + ":r",
		"resource of 513 bytes":       "42:h:" + strings.Repeat("r", 513),
		"longer than any fence":       "42:h:" + strings.Repeat("%00", 1000),
		"what printing a fence shows": `fence 42 on "r"`,
	} {
		f, err := fencedstore.ParseFence(s)
		if !errors.Is(err, fencedstore.ErrInvalidFence) || f != (fencedstore.Fence{}) {
			t.Errorf("%s: got %v, %v, want the zero fence and ErrInvalidFence", name, f, err)
		}
	}
}

func TestParseErrorsQuoteNothing(t *testing.T) {
	t.Parallel()
	const secret = "topsecret"
	for _, s := range []string{
		secret, "42:" + secret, "x:" + secret + ":r", "42:" + secret + " :r",
		"42:" + secret + ":%", "42:" + secret + ":", "42:" + strings.Repeat(secret, 20) + ":r", "0" + secret + ":h:r",
	} {
		if _, err := fencedstore.ParseFence(s); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: got error %v, want one that does not quote", s, err)
		}
	}
}

func TestTextIsSafeInAHeader(t *testing.T) {
	t.Parallel()
	var every strings.Builder
	for c := range 256 {
		every.WriteByte(byte(c))
	}
	sent := fencedstore.Fence{Resource: every.String(), ID: 1<<53 + 1, Holder: every.String()[:fencedstore.MaxHolder]}
	for _, c := range []byte(sent.String()) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"'\,;<>{}`, c) >= 0 {
			t.Fatalf("byte %#x in the text", c)
		}
	}
	got := make(chan string, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got <- r.Header.Get("X-Fence")
	}))
	defer srv.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Fence", sent.String())
	resp, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if f, err := fencedstore.ParseFence(<-got); err != nil || f != sent {
		t.Errorf("over HTTP: got %v, %v, want the fence that was sent", f, err)
	}
}

func TestJSONCarriesTheFenceAsAString(t *testing.T) {
	t.Parallel()
	type job struct {
		Fence fencedstore.Fence `json:"fence"`
	}
	sent := job{fencedstore.Fence{Resource: "a<b>", ID: 1<<53 + 1, Holder: "h"}}
	b, err := json.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(b), `{"fence":"9007199254740993:h:a%3Cb%3E"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	var got job
	if err := json.Unmarshal(b, &got); err != nil || got != sent {
		t.Errorf("got %v, %v, want what was sent", got, err)
	}
	for _, bad := range []string{`{"fence":42}`, `{"fence":""}`, `{"fence":"42:h:"}`, `{"fence":{"Resource":"r","ID":42}}`} {
		kept := sent
		if err := json.Unmarshal([]byte(bad), &kept); err == nil {
			t.Errorf("%s: got no error", bad)
		}
		if kept != sent {
			t.Errorf("%s: a refused text changed the fence to %v", bad, kept)
		}
	}
	if _, err := json.Marshal(job{}); !errors.Is(err, fencedstore.ErrInvalidFence) {
		t.Errorf("zero fence: got %v, want ErrInvalidFence", err)
	}
}

func FuzzParseFence(f *testing.F) {
	f.Add(valid.String())
	f.Add("1:h%3Ai:a%3Ab")
	f.Add("9223372036854775807:%00:%FF")
	for _, s := range refusedIDs {
		f.Add(s + ":h:r")
	}
	f.Add("42:h:%2f")
	f.Fuzz(func(t *testing.T, s string) {
		got, err := fencedstore.ParseFence(s)
		if err != nil {
			if !errors.Is(err, fencedstore.ErrInvalidFence) || got != (fencedstore.Fence{}) {
				t.Fatalf("%q: got %v, %v, want the zero fence and ErrInvalidFence", s, got, err)
			}
			return
		}
		if err := got.Validate(); err != nil {
			t.Fatalf("%q: accepted an invalid fence: %v", s, err)
		}
		if back := got.String(); back != s {
			t.Fatalf("%q: accepted, but its text is %q", s, back)
		}
	})
}

func FuzzFenceText(f *testing.F) {
	f.Add("invoices", int64(42), "4f1c")
	f.Add("a:b%\x00\xff{}", int64(math.MaxInt64), "é")
	f.Add("", int64(0), "")
	f.Fuzz(func(t *testing.T, resource string, id int64, holder string) {
		want := fencedstore.Fence{Resource: resource, ID: id, Holder: holder}
		got, err := fencedstore.ParseFence(want.String())
		if want.Validate() != nil {
			if err == nil {
				t.Fatalf("read the text of an invalid fence: %v", got)
			}
			return
		}
		if err != nil || got != want {
			t.Fatalf("got %v, %v, want %v", got, err, want)
		}
	})
}
