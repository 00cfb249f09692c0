package s3compat

import (
	"crypto/sha256"
	"encoding/hex"
)

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
