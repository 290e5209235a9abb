#include "textflag.h"

// Each lane of the minimum is zero if one of these is zero there: the byte XOR quote, the byte XOR
// backslash, and the byte minus 0x1f with saturation, which control characters make zero.
#define MINIMUM(at, x, y, z) \
	MOVOU   at(SI), x \
	MOVO    x, y      \
	MOVO    x, z      \
	PXOR    X12, y    \
	PXOR    X13, z    \
	PSUBUSB X14, x    \
	PMINUB  y, x      \
	PMINUB  z, x

// func plainBlocks(data []byte) int
TEXT ·plainBlocks(SB), NOSPLIT, $0-32
	MOVQ data_base+0(FP), SI
	MOVQ data_len+8(FP), CX
	SHRQ $6, CX                  // the number of blocks
	MOVQ SI, DI
	MOVQ $0x2222222222222222, AX // quotes
	MOVQ AX, X12
	PUNPCKLQDQ X12, X12
	MOVQ $0x5c5c5c5c5c5c5c5c, AX // backslashes
	MOVQ AX, X13
	PUNPCKLQDQ X13, X13
	MOVQ $0x1f1f1f1f1f1f1f1f, AX
	MOVQ AX, X14
	PUNPCKLQDQ X14, X14
	PXOR X15, X15
	JMP  next

block:
	MINIMUM(0, X0, X1, X2)
	MINIMUM(16, X3, X4, X5)
	MINIMUM(32, X6, X7, X8)
	MINIMUM(48, X9, X10, X11)
	PMINUB   X3, X0
	PMINUB   X9, X6
	PMINUB   X6, X0
	PCMPEQB  X15, X0
	PMOVMSKB X0, AX
	TESTL    AX, AX
	JNZ      done
	ADDQ     $64, SI
	DECQ     CX

next:
	TESTQ CX, CX
	JNZ   block

done:
	SUBQ DI, SI
	MOVQ SI, ret+24(FP)
	RET
