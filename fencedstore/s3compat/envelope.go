package s3compat

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fenced-go/fenced/fencedstore"
)

// formatVersion is the version of the register's format that this package
// writes, and the greatest that it reads; see docs/s3-layout.md.
const formatVersion = 1

// magic begins a register; version and checksum follow on the same line.
const magic = "fenced-register"

const (
	// maxHistory is how many write IDs before the current one a register
	// remembers: so many commits of others may pass until the outcome of a
	// write cannot be found out any more.
	maxHistory = 64
	// maxDropped is how much data that lost its last reference is remembered;
	// what falls off is found by listing.
	maxDropped = 256
)

// envelope is a decoded register. It is not changed once it is shared.
type envelope struct {
	Resource string `json:"resource"` // escaped
	Fence    int64  `json:"fence,string"`
	Holder   string `json:"holder"` // SHA-256, hex
	Seq      int64  `json:"seq,string"`
	Write    string `json:"write"` // ID of the write that made this version
	At       string `json:"at"`
	// History holds the IDs of the writes before, oldest first and without
	// gaps: the last one made version Seq-1.
	History []string          `json:"history"`
	Entries map[string]*entry `json:"entries"`
	Dropped []dropped         `json:"dropped,omitempty"`
}

// entry is one key of a resource. It is not changed once it is in an envelope.
type entry struct {
	Fence    int64             `json:"fence,string"` // of the tenure that wrote it
	Size     int64             `json:"size,string"`
	SHA256   string            `json:"sha256,omitempty"` // hex; unknown for presigned uploads
	Type     string            `json:"type,omitempty"`
	Metadata map[string]string `json:"meta,omitempty"`
	At       string            `json:"at"`
	Data     string            `json:"data,omitempty"` // name below the resource's folder
	ETag     string            `json:"etag,omitempty"` // of the data, without quotes
	Offset   *int64            `json:"offset,omitempty,string"`

	value []byte // when inline
}

func (en *entry) inline() bool { return en.Data == "" }

// dropped is data that nothing refers to any more, since At.
type dropped struct {
	Data string `json:"data"`
	At   string `json:"at"`
}

func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// next is the version that f writes after e, with nothing else changed; e is
// nil when there is no register.
func (e *envelope) next(f fencedstore.Fence, now time.Time) *envelope {
	n := &envelope{
		Resource: escape(f.Resource), Fence: f.ID, Holder: hashed(f), Seq: 1,
		Write: rand.Text(), At: timestamp(now), History: []string{}, Entries: map[string]*entry{},
	}
	if e == nil {
		return n
	}
	n.Seq = e.Seq + 1
	n.History = append(slices.Clone(e.History), e.Write)
	n.History = n.History[max(0, len(n.History)-maxHistory):]
	n.Entries, n.Dropped = maps.Clone(e.Entries), slices.Clone(e.Dropped)
	return n
}

// writeAt is the ID of the write that made version seq, and false when the
// history does not go back that far.
func (e *envelope) writeAt(seq int64) (string, bool) {
	if seq == e.Seq {
		return e.Write, true
	}
	i := int64(len(e.History)) - (e.Seq - seq)
	if seq > e.Seq || i < 0 {
		return "", false
	}
	return e.History[i], true
}

// encode returns the bytes of the register.
func (e *envelope) encode() ([]byte, error) {
	var offset int64
	var payload []byte
	out := *e
	out.Entries = make(map[string]*entry, len(e.Entries))
	for _, key := range slices.Sorted(maps.Keys(e.Entries)) {
		en := *e.Entries[key]
		if en.inline() {
			at := offset
			en.Offset = &at
			offset += en.Size
			payload = append(payload, en.value...)
		}
		out.Entries[key] = &en
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(&out); err != nil {
		return nil, err
	}
	b.Write(payload)
	sum := sha256.Sum256(b.Bytes())
	head := fmt.Sprintf("%s %d sha256=%x\n", magic, formatVersion, sum)
	if len(head)+b.Len() > MaxRegister {
		return nil, fmt.Errorf("%w: the register would have %d bytes, at most %d are allowed", ErrTooLarge, len(head)+b.Len(), MaxRegister)
	}
	return append([]byte(head), b.Bytes()...), nil
}

// decode reads a register and checks all that can be checked without the store.
func decode(b []byte) (*envelope, error) {
	head, rest, ok := bytes.Cut(b, []byte("\n"))
	if !ok {
		return nil, corrupt("it has no first line")
	}
	sum, err := parseHead(string(head))
	if err != nil {
		return nil, err
	}
	if got := sha256.Sum256(rest); hex.EncodeToString(got[:]) != sum {
		return nil, corrupt("its checksum does not match")
	}
	line, payload, ok := bytes.Cut(rest, []byte("\n"))
	if !ok {
		return nil, corrupt("it has no second line")
	}
	e := new(envelope)
	if err := json.Unmarshal(line, e); err != nil {
		return nil, corrupt("its second line is not JSON of a register")
	}
	if err := e.check(payload); err != nil {
		return nil, err
	}
	return e, nil
}

func parseHead(head string) (sum string, err error) {
	fields := strings.Split(head, " ")
	if fields[0] != magic || len(fields) < 2 {
		return "", corrupt("it does not begin with " + magic)
	}
	version, err := strconv.Atoi(fields[1])
	switch {
	case err != nil || version < 1:
		return "", corrupt("it has no version")
	case version > formatVersion:
		return "", &VersionError{Version: version}
	}
	sum, ok := strings.CutPrefix(fields[len(fields)-1], "sha256=")
	if !ok || len(fields) != 3 {
		return "", corrupt("it has no checksum")
	}
	return sum, nil
}

// check validates what was decoded, and cuts the inline values out of payload.
func (e *envelope) check(payload []byte) error {
	switch {
	case e.Fence < 1 || e.Seq < 1 || e.Holder == "" || e.Write == "" || e.Resource == "":
		return corrupt("a field is missing")
	case len(e.History) > maxHistory || int64(len(e.History)) >= e.Seq:
		return corrupt("its history is too long")
	}
	if e.Entries == nil {
		e.Entries = map[string]*entry{}
	}
	for key, en := range e.Entries {
		if en == nil || validateKey(key) != nil {
			return corrupt("an entry is not valid")
		}
		if err := en.check(e.Fence, payload); err != nil {
			return err
		}
	}
	for _, d := range e.Dropped {
		if dataFence(d.Data) == 0 {
			return corrupt("dropped data has no name")
		}
	}
	return nil
}

func (en *entry) check(fence int64, payload []byte) error {
	if en.Fence < 1 || en.Fence > fence || en.Size < 0 {
		return corrupt("an entry has a wrong fence or size")
	}
	if !en.inline() {
		if df := dataFence(en.Data); df == 0 || df > en.Fence || en.Offset != nil {
			return corrupt("an entry's data has a wrong name")
		}
		return nil
	}
	if en.Offset == nil || *en.Offset < 0 || *en.Offset > int64(len(payload)) || en.Size > int64(len(payload))-*en.Offset {
		return corrupt("an entry lies outside the register")
	}
	en.value = payload[*en.Offset : *en.Offset+en.Size : *en.Offset+en.Size]
	sum := sha256.Sum256(en.value)
	if hex.EncodeToString(sum[:]) != en.SHA256 {
		return corrupt("the checksum of an entry does not match")
	}
	en.Offset = nil
	return nil
}

// inlineSize is the size of all inline values.
func (e *envelope) inlineSize() int64 {
	var n int64
	for _, en := range e.Entries {
		if en.inline() {
			n += en.Size
		}
	}
	return n
}

// set puts key to en, or removes it when en is nil. Data that loses its last
// reference is remembered for GC.
func (e *envelope) set(key string, en *entry) {
	old := e.Entries[key]
	if en == nil {
		delete(e.Entries, key)
	} else {
		e.Entries[key] = en
	}
	if old == nil || old.inline() || e.refers(old.Data) {
		return
	}
	e.Dropped = append(e.Dropped, dropped{Data: old.Data, At: e.At})
	e.Dropped = e.Dropped[max(0, len(e.Dropped)-maxDropped):]
}

func (e *envelope) refers(data string) bool {
	for _, en := range e.Entries {
		if en.Data == data {
			return true
		}
	}
	return false
}

// forget takes names off the list of dropped data.
func (e *envelope) forget(names map[string]bool) {
	e.Dropped = slices.DeleteFunc(e.Dropped, func(d dropped) bool { return names[d.Data] })
}

func (e *envelope) hasDropped(name string) bool {
	return slices.ContainsFunc(e.Dropped, func(d dropped) bool { return d.Data == name })
}
