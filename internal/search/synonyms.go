package search

import (
	"strings"
	"sync"
)

// verbs are groups of synonymous verbs in tool names and requests.
const verbs = `
get fetch retrieve obtain read show view display lookup
list enumerate browse
create add make new generate insert register build
delete remove erase drop destroy clear discard purge
update edit modify change alter set adjust revise
search find query lookup locate discover seek
send post submit deliver
run execute invoke start launch trigger
stop cancel abort terminate halt end kill
check verify validate test inspect examine
expire vanish disappear
resolve fix solve
reply respond answer
scale resize
transition move
download export save
upload import attach
convert transform translate turn
calculate compute work
describe explain detail info information
schedule book reserve plan arrange
copy duplicate clone
move transfer rename relocate
merge combine join dedupe deduplicate consolidate
summarize summary overview digest
buy purchase order shop
sell trade
compare diff difference
write save
store save remember record keep
monitor watch track
enable activate
disable deactivate suspend
grant assign give
revoke withdraw
assess analyze evaluate review examine
recommend suggest recommendation suggestion propose
notify alert remind reminder notification
share publish
extract parse scrape
undo revert rollback restore reset
log record
pay payment charge bill
approve accept confirm
reject deny decline refuse
answer reply respond
compress zip archive
open launch
draw sketch paint illustrate
combine concatenate append
sort order rank
learn study
talk chat speak converse
`

// nouns are groups of synonymous nouns and their short forms.
const nouns = `
image picture photo photograph img pic
video clip movie film
audio sound
doc document documentation docs
file document
directory folder dir
database db
repository repo
config configuration setting preference
app application
message msg
email mail inbox
user account member
customer client
person people individual human
employee staff worker
company business firm corporation organization org
issue bug ticket problem defect
task todo job
meeting appointment event
calendar agenda
stock share equity ticker
price cost rate quote
money fund cash
currency exchange forex
cryptocurrency crypto bitcoin coin token
invoice bill
salary wage pay
website site webpage page web url link
internet online web
weather forecast temperature climate rain
location place address geolocation
map direction route navigation
city town
country nation
restaurant dining eat
recipe cooking cook dish meal
food meal nutrition
hotel accommodation lodging stay
flight airline plane airport
trip travel vacation journey itinerary holiday tour
holiday vacation leave pto absence
diary calendar agenda
chargeback dispute
boss manager supervisor
wiki page
mail letter email
parcel shipment
salary earnings payslip paycheck
expense reimbursement receipt
copy replica
crash restart failure
console terminal shell
container pod
workflow ci
ringtone volume sound loudness
lamp light bulb
heating thermostat temperature
film movie
groceries shopping
train rail
subway metro
petrol gas fuel
flat apartment
mobile phone cellphone
fridge refrigerator
bin trash garbage rubbish
umbrella rain weather
umbrella forecast
pr pull
deployment release rollout
teammate colleague coworker member
car vehicle automobile auto
house home property apartment realty
game play
song music track tune
artist musician singer
book novel reading
news article headline
paper article publication research
movie film cinema
show series tv
sport team league match
soccer football
doctor physician medical health
medicine drug medication
illness disease symptom
exercise workout fitness gym training
job career employment vacancy
resume cv
school university college education
student pupil learner
course class lesson
language tongue
word vocabulary term
definition meaning define dictionary
quote quotation saying
joke funny humor
gift present
clothes clothing outfit fashion wear dress
product item goods
shop store
discount coupon deal promotion offer
delivery shipping shipment parcel package
law legal attorney lawyer
contract agreement
chart graph plot diagram visualization
table spreadsheet sheet
slide presentation powerpoint
picture painting artwork art
code program programming software
function method
error exception failure
vm machine
server host
cluster k8s kubernetes
network net
password secret credential
login signin authentication auth
permission access privilege role
version revision
branch fork
history past previous
statistics stats metric analytics
report summary
log audit
backup snapshot
key secret
certificate cert ssl tls
identifier id
number phone telephone
text sms message
comment remark note
note memo
tag label category
group team
date day
time clock hour
latest recent newest current
today current
popular trending hot
similar related alike
cheap inexpensive affordable
kid child children
pet dog cat animal
astrology horoscope zodiac
pdf document
speech voice
translation language
ai llm gpt
tweet twitter
profit revenue income earnings
investment portfolio invest investing
loan mortgage credit
tax irs
math mathematics equation
random dice
seo keyword
ad advertisement advertising campaign
video youtube
earthquake quake seismic
`

// synonyms maps a word to the words of its groups. It is read-only.
type synonyms map[string][]string

func groups(s string) synonyms {
	m := synonyms{}
	for line := range strings.SplitSeq(s, "\n") {
		ws := strings.Fields(line)
		for _, a := range ws {
			a = string(appendStem(nil, []byte(a)))
			for _, b := range ws {
				b = string(appendStem(nil, []byte(b)))
				if a != b {
					m[a] = append(m[a], b)
				}
			}
		}
	}
	return m
}

var (
	verbSynonyms = sync.OnceValue(func() synonyms { return groups(verbs) })
	nounSynonyms = sync.OnceValue(func() synonyms { return groups(nouns) })
)
