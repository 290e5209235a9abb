package search

import (
	"strings"
	"sync"
)

// products are names that people give to a product, each with the words of the server that has it. A name
// leads to the words, the words do not lead to the name: Atlassian has more than Jira.
const products = `
ado: azure devops
aws: amazon
bigquery: google gcp
bq: bigquery google
cloudwatch: aws amazon
confluence: atlassian
dynamodb: aws amazon
ec2: aws amazon
elastic: elasticsearch
facebook: meta
fb: facebook meta
firestore: firebase google
gcal: google calendar
gcp: google cloud
gcs: google cloud storage
gdoc: google docs document
gdocs: google docs document
gdrive: google drive
gh: github
gmail: google mail email
gsheet: google sheets spreadsheet
gsheets: google sheets spreadsheet
ig: instagram
insta: instagram
jira: atlassian
k8s: kubernetes
kube: kubernetes
kubectl: kubernetes
m365: microsoft office outlook
mongo: mongodb
mr: merge request
mrs: merge request
mssql: sqlserver
o365: microsoft office outlook
onedrive: microsoft
outlook: microsoft office mail email
pg: postgres postgresql
postgres: postgresql
postgresql: postgres
pr: pull request
prs: pull request
psql: postgres postgresql
s3: aws amazon
sfdc: salesforce
sharepoint: microsoft
sms: twilio
sqs: aws amazon
teams: microsoft
tf: terraform
vscode: code
wa: whatsapp
wp: wordpress
xlsx: excel
yt: youtube
`

// productWords maps the stem of a product's name to the stems of its server's words.
var productWords = sync.OnceValue(func() synonyms {
	m := synonyms{}
	for line := range strings.Lines(strings.TrimSpace(products)) {
		name, words, _ := strings.Cut(line, ":")
		stem := string(appendStem(nil, []byte(name)))
		for _, w := range strings.Fields(words) {
			m[stem] = append(m[stem], string(appendStem(nil, []byte(w))))
		}
	}
	return m
})
