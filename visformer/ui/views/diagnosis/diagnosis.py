"""The Diagnosis tab: what is wrong with a model, page by page."""

from visformer.ui.views.diagnosis.checks_page import ChecksPage
from visformer.ui.views.diagnosis.heads_page import HeadsPage
from visformer.ui.views.diagnosis.importance_page import ImportancePage
from visformer.ui.views.diagnosis.sentences_page import SentencesPage
from visformer.ui.views.diagnosis.training_page import TrainingPage
from visformer.ui.views.view import PagedView


class DiagnosisView(PagedView):
    """Its pages; each asks its own question about the model."""

    name = "diagnosis"
    pages = SentencesPage, ChecksPage, ImportancePage, HeadsPage, TrainingPage
    fills = True  # with tables that need all of the width
