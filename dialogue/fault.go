package dialogue

// Fault classifies a message that does not follow its protocol. Faulty messages are counted and recorded, never
// repaired. The empty Fault means well-formed.
type Fault string

const (
	FaultEmptyMessage Fault = "empty_message" // nothing but white space
	FaultMissingTag   Fault = "missing_tag"   // the next field is absent, or the message ends before it
	FaultWrongOrder   Fault = "wrong_order"   // a later field stands where an earlier one, present further on, belongs
	FaultDuplicate    Fault = "duplicate_tag" // a field appears a second time
	FaultUnknownTag   Fault = "unknown_tag"   // <…> between fields that opens no field of the protocol
	FaultOutside      Fault = "text_outside"  // text before the first field or between two
	FaultTrailing     Fault = "trailing_text" // anything but white space after the last field
	FaultUnterminated Fault = "unterminated"  // a field's closing tag never comes, or another field's tag comes first
	FaultAngle        Fault = "angle_in_text" // a '<' inside a value that belongs to no tag of the protocol
	FaultBadValue     Fault = "bad_value"     // not a canonical number in range, or none of an enum's values
	FaultEmptyReply   Fault = "empty_reply"   // the one field the other side hears says nothing
	// FaultTruncated is set by the caller of Parse, who alone knows it: Parse found a fault and the message had been
	// cut at its token limit.
	FaultTruncated Fault = "truncated"
)

// Faults lists every class, for tables and counters.
var Faults = []Fault{
	FaultEmptyMessage, FaultMissingTag, FaultWrongOrder, FaultDuplicate, FaultUnknownTag, FaultOutside,
	FaultTrailing, FaultUnterminated, FaultAngle, FaultBadValue, FaultEmptyReply, FaultTruncated,
}
