package postgres

var (
	EncodeResource = encodeResource
	Refused        = refused
	Outcome        = outcome
)
